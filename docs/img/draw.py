"""Draws the pictures of this directory, with nothing but Python.

    python3 docs/img/draw.py                    # charts, from the tables of docs/internals/measurements.md
    script -qec 'stepwell train' recording && python3 docs/img/draw.py recording
                                                # and the terminal, from a recording

A chart is drawn from the figures of that page, found by heading, table and row, so that it cannot
say anything else.
"""

import html
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
MEASURED = (HERE / "../internals/measurements.md").read_text()
OURS, THEIRS, INK, PALE, PAPER = "#0b6e69", "#9aa5b1", "#1f2933", "#616e7c", "#ffffff"


def tables(heading):
    """The tables under a heading, up to the next one; each a list of rows, the first its head."""
    text = MEASURED.split("\n" + heading + "\n", 1)[1]
    text = re.split(r"\n#+ ", text, maxsplit=1)[0]
    found = re.findall(r"(?:^\|.*\n)+", text + "\n", re.M)
    cells = lambda line: [cell.strip() for cell in line.strip().strip("|").split("|")]
    return [[cells(line) for at, line in enumerate(table.splitlines()) if at != 1] for table in found]


def number(cell):
    return float(re.match(r"[-+]?[\d,.]+", cell).group().replace(",", ""))


def column(table, name, rows=None):
    """(label, number) of each row of a table, by the name of the column."""
    at = table[0].index(name)
    taken = [row for row in table[1:] if row[at] and (rows is None or row[0] in rows)]
    return [(row[0], number(row[at])) for row in taken]


class Picture:
    def __init__(self, width, title):
        self.width, self.y, self.title, self.parts = width, 26, title, []
        self.noted = False
        self.text(16, title, INK, 15, "bold")
        self.y += 10

    def text(self, x, text, fill=INK, size=12, weight="normal", anchor="start"):
        self.parts.append(
            f'<text x="{x:.0f}" y="{self.y:.0f}" fill="{fill}" font-size="{size}" '
            f'font-weight="{weight}" text-anchor="{anchor}">{html.escape(text)}</text>'
        )

    def note(self, text):
        self.y += 16 if self.noted else 28
        self.noted = True
        self.text(16, text, PALE, 11)

    def bars(self, heading, bars, show, ours, one=None):
        """Bars of a group; `one` draws a line where the value is that."""
        self.y += 24
        self.text(16, heading, INK, 12, "bold")
        left, right = 210, 80
        most = max([value for _, value in bars] + [one * 1.05 if one else 0])
        scale = (self.width - left - right) / most
        top = self.y + 6
        for label, value in bars:
            self.y += 20
            fill = OURS if ours(label, value) else THEIRS
            self.text(left - 8, label, INK, 12, anchor="end")
            self.parts.append(
                f'<rect x="{left}" y="{self.y - 12:.0f}" width="{max(value * scale, 1):.1f}" '
                f'height="15" fill="{fill}"/>'
            )
            end = max(value, one) if one and value > one * 0.85 else value
            self.text(left + end * scale + 6, show(value), INK, 12)
        if one is not None:
            x = left + one * scale
            self.parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.0f}" y2="{self.y + 6:.0f}" '
                f'stroke="{INK}" stroke-dasharray="3 2"/>'
            )

    def save(self, name):
        height = self.y + 18
        (HERE / name).write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height}" '
            f'viewBox="0 0 {self.width} {height}" font-family="Helvetica, Arial, sans-serif">\n'
            f"<title>{html.escape(self.title)}</title>\n"
            f'<rect width="100%" height="100%" fill="{PAPER}"/>\n'
            + "\n".join(self.parts) + "\n</svg>\n"
        )
        print(name)


def stores():
    load, cold, update = tables("### Beside RocksDB and fjall")[:3]
    picture = Picture(720, "Rows a second beside other stores")
    ours = lambda label, _: label == "Stepwell"
    show = lambda value: f"{value / 1e3:,.0f} K"
    picture.bars("Load, durable every million rows", column(load, "rows/s"), show, ours)
    picture.bars("Cold reads, each with its best number of threads", column(cold, "rows/s"), show, ours)
    picture.bars("Update of half the rows", column(update, "rows/s"), show, ours)
    picture.note("17 M rows of 256 bytes, 512 MiB of memory. 2026-11-22, two cores of an AMD EPYC, not quiet;")
    picture.note("one run each, so that differences of a tenth say nothing. RocksDB 11.8, fjall 3.1.")
    picture.save("stores.svg")


def pytorch():
    zen, xeon = tables("## Speed beside PyTorch")[:2]
    steps_zen, steps_xeon, steps_bf16 = tables("### Steps alone")[:3]
    better = number(re.search(r"polars and `torch.compile` [\d,]+: (\d+\.\d+)", MEASURED).group(1))
    picture = Picture(720, "Examples a second over those of PyTorch (1: equal)")
    faster = lambda _, value: value >= 1
    show = lambda value: f"{value:.2f}"
    whole = "From text to the last step, "
    bars = column(zen, "ratio") + [("wide_deep, better options", better)]
    picture.bars(whole + "EPYC with AVX2, 2026-11-21", bars, show, faster, 1)
    picture.bars(whole + "Xeon with AVX-512 and AMX, 2026-11-22", column(xeon, "ratio"), show, faster, 1)
    picture.bars("Steps alone in f32, EPYC with AVX2, 1 thread, 2026-11-22", column(steps_zen, "ratio"), show, faster, 1)
    grouped = column(steps_zen, "with grouping")
    picture.bars("The same, grouping of ids counted in on our side", grouped, show, faster, 1)
    picture.bars("Steps alone in f32, the Xeon, 2026-11-22", column(steps_xeon, "ratio"), show, faster, 1)
    picture.bars("Steps alone in bf16, the Xeon, 2026-11-22", column(steps_bf16, "ratio"), show, faster, 1)
    picture.note("2 threads unless said; everything in memory; PyTorch 2.15.0 with the best of its options that were tried.")
    picture.note("Better options: those of PyTorch that were found for wide_deep later, by hand. Machines were shared.")
    picture.save("pytorch.svg")


def caches():
    table = tables("### Beside other caches")[0]
    picture = Picture(720, "Look-ups a second beside other caches")
    ours = lambda label, _: label.startswith("stepwell")
    show = lambda value: f"{value:.2f} M"
    picture.bars("One thread", column(table, "1 thread, M/s"), show, ours)
    picture.bars("Two threads", column(table, "2 threads, M/s"), show, ours)
    picture.note("16.78 M rows of 256 bytes, 80 M keys by Zipf 1.05. 2026-11-21, two cores of an AMD EPYC, load 1.4.")
    picture.save("caches.svg")


def out_of_core():
    table = tables("### Harvest")[0]
    head = table[0]
    rate = head.index("out of core, K/s, without → with")
    bars = []
    for row in table[1:]:
        bars.append((f"{row[0]}, all rows in memory", number(row[2])))
        bars.append((f"{row[0]}, memory for {row[1]}", number(row[rate].split("→")[1].strip())))
    unique = list(dict(bars).items())
    picture = Picture(720, "Training out of core: K examples a second")
    ours = lambda label, _: "all rows" not in label
    picture.bars("10 M rows in an aged store", unique, lambda value: f"{value:.1f}", ours)
    picture.note("2026-11-23, AMD EPYC, 2 cores, a disk of 74 to 84 K random reads a second. The rate in memory of deepfm")
    picture.note("moves with the machine: other runs of the hour put the bar for 10 % at 0.85 and 0.90 of it.")
    picture.save("out-of-core.svg")


def ranks():
    table = tables("## Ranks")[0]
    over = re.compile(r"([\d.]+)\)")
    bars = []
    for row in table[1:]:
        for peer, cell in zip(table[0][2:], row[2:]):
            peer = peer.replace("with", "TorchRec with")
            bars.append((f"{row[0]}, {peer}", float(over.search(cell).group(1))))
    picture = Picture(720, "Two ranks: examples a second over others (1: equal)")
    show = lambda value: f"{value:.2f}"
    picture.bars("Beside two processes of PyTorch", bars, show, lambda _, value: value >= 1, 1)
    own = tables("## Ranks")[1]
    bars = [(f"{row[0]}, {where}", number(row[at])) for row in own[1:]
            for at, where in ((1, "in memory"), (2, "out of core"))]
    picture.bars("Beside one rank of two threads of Stepwell", bars, show, lambda _, value: value >= 1, 1)
    picture.note("2026-11-23 and 24, Xeon with AVX-512, 2 cores, nothing else on it; PyTorch 2.14.1, TorchRec 1.9.2.")
    picture.save("ranks.svg")


BAR = re.compile(r"[█░▏▎▍▌▋▊▉]+ +\d+ %")


def terminal(recording):
    """The recording of a terminal with 80 columns: what stays on the screen, the bar as it moved."""
    text = pathlib.Path(recording).read_text()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.replace("\r", "\n"))
    lines = [line.rstrip() for line in text.splitlines()]
    lines = [line for line in lines if not line.startswith("Script ")]
    moves = [line for line in lines if BAR.match(line) and "examples/s" in line]
    begin = lines.index(moves[0])
    stays = lambda lines: [line for line in lines if line and not BAR.match(line)]
    frames = [moves[at * (len(moves) - 1) // 15] for at in range(16)]
    size, step, width, seconds = 12, 17, 620, 8
    shown = ["$ stepwell train"] + stays(lines[:begin]) + [None, ""] + stays(lines[begin:])
    height = 24 + step * (len(shown) + 1)
    parts = []
    y = 30
    line_of = lambda text, y, more="": (
        f'<text x="16" y="{y}" xml:space="preserve"{more}>{html.escape(text)}'
    )
    for text in shown:
        if text is None:
            for at, frame in enumerate(frames):
                values = ";".join(["visible" if n == at else "hidden" for n in range(len(frames))])
                last = ' visibility="hidden"' if at + 1 < len(frames) else ""
                parts.append(
                    line_of(frame, y, last + ' fill="#7ee0c3"')
                    + f'<animate attributeName="visibility" values="{values}" dur="{seconds}s" '
                    'calcMode="discrete" fill="freeze"/></text>'
                )
        else:
            parts.append(line_of(text, y) + "</text>")
        y += step
    (HERE / "terminal.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Menlo, Consolas, DejaVu Sans Mono, monospace" '
        f'font-size="{size}" fill="#e4e7eb">\n<title>A run of stepwell train</title>\n'
        '<rect width="100%" height="100%" rx="6" fill="#1f2933"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
    print("terminal.svg")


for draw in (stores, pytorch, caches, out_of_core, ranks):
    draw()
if len(sys.argv) > 1:
    terminal(sys.argv[1])
