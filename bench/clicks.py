"""A synthetic click log in Criteo's format, drawn with numpy, which both sides can read.

Ids follow a Zipf law in each slot, over the vocabularies of a real sample times a scale; integers
are rounded log-normal values; both are missing as often as in the sample. A click is drawn from a
logistic model of the effects of ids and integers. The file depends only on the arguments and on
numpy's generator.
"""

import numpy as np
import pyarrow as pa
import pyarrow.csv

# Distinct ids of each categorical column in a sample of 80,000 examples, and the fraction missing.
VOCABULARY = [24777, 6440, 8356, 2567, 6273, 3, 4789, 922, 23, 21397, 9325, 13755, 9, 1084, 3270,
              48, 3, 424, 14, 26716, 16156, 23486, 7889, 5773, 38, 32]
IDS_MISSING = [.04, 0, 0, 0, 0, 0, 0, 0, 0, .04, .04, 0, 0, .42, 0, .42, .42, 0, 0, .04, .04, .04,
               .42, 0, 0, 0]
# Integers: fraction missing, and mean and deviation of log(1 + x).
INTEGERS_MISSING = [.2, .1, .23, .26, .41, .07, .02, 0, 0, .07, .41, .01, .23]
LOG_MEAN = [2.2, 5.2, 1.7, 3.6, 2.2, .5, .1, 2.2, 1.8, .2, 1.3, 7.6, 1.8]
LOG_DEVIATION = [1.2, 1.6, .9, 1.7, 1.2, .8, .3, 2.1, 1.2, .4, .7, 2.8, .9]
BASE_LOGIT = -4.8
BLOCK = 200_000


def write(path, examples, seed=1, vocabulary_scale=10.0, zipf=1.05):
    """Writes the log in blocks; the file is renamed to `path` once it is complete."""
    part = path.with_name(path.name + ".part")
    options = pa.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    sizes = [max(2, round(v * vocabulary_scale)) if v > 100 else v for v in VOCABULARY]
    with open(part, "wb") as out:
        for index, begin in enumerate(range(0, examples, BLOCK)):
            generator = np.random.default_rng([seed, index])
            table = block(generator, min(BLOCK, examples - begin), sizes, zipf)
            pa.csv.write_csv(table, out, options)
    part.rename(path)


def block(generator, n, sizes, zipf):
    logit = np.full(n, BASE_LOGIT)
    columns = []
    for i, missing in enumerate(INTEGERS_MISSING):
        z = generator.standard_normal(n)
        gone = generator.random(n) < missing
        value = np.expm1(np.maximum(z * LOG_DEVIATION[i] + LOG_MEAN[i], 0)).clip(0, 2e9)
        logit += np.where(gone, 0, (0.15, -0.15)[i % 2] * z)
        columns.append(pa.array(value.astype(np.int32), mask=gone))
    for slot, (size, missing) in enumerate(zip(sizes, IDS_MISSING)):
        key = mix(zipf_ranks(generator, n, size, zipf) + np.uint64(slot << 40))
        gone = generator.random(n) < missing
        effect = (unit(mix(key)) - 0.5) * 1.2
        logit += np.where(gone, 0, effect)
        columns.append(hexadecimal(key, gone))
    clicks = generator.random(n) < 1 / (1 + np.exp(-logit))
    columns.insert(0, pa.array(clicks.astype(np.int8)))
    return pa.table(columns, names=[str(i) for i in range(len(columns))])


def zipf_ranks(generator, n, size, exponent):
    """Ranks from 0 with density rank^-exponent, drawn by inverting the continuous distribution."""
    e = 1 - exponent
    x = (1 + generator.random(n) * ((size + 1) ** e - 1)) ** (1 / e)
    return np.clip(x, 1, size).astype(np.uint64) - np.uint64(1)


def mix(x):
    """SplitMix64's output function."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def unit(x):
    return (x >> np.uint64(11)) / 2.0**53


def hexadecimal(key, gone):
    """The upper 40 bits of each key as ten hexadecimal digits; null where `gone`."""
    n = len(key)
    octets = np.ascontiguousarray(key.astype(">u8").view(np.uint8).reshape(n, 8)[:, :5])
    text = np.frombuffer(octets.tobytes().hex().encode(), dtype=np.uint8)
    offsets = np.arange(n + 1, dtype=np.int32) * 10
    present = np.packbits(~gone, bitorder="little")
    return pa.StringArray.from_buffers(n, *map(pa.py_buffer, (offsets, text, present)))
