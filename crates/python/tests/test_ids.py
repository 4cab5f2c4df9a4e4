"""Ids of every kind of array select the same rows."""

import unittest

import numpy as np

import stepwell


def module(name):
    try:
        return __import__(name)
    except ImportError:
        return None


def open_one(**more):
    emb = stepwell.Embeddings(
        {"a": stepwell.Table(4, init_range=0.5)}, {"a": "a"}, dram="1MiB", arrays="numpy", **more
    )
    stepwell.optim.SGD(emb, lr=0.1)
    return emb


class IdsTest(unittest.TestCase):
    def setUp(self):
        self.emb = open_one()
        self.expected = self.emb.get("a", [7, -3, 12])

    def tearDown(self):
        self.emb.close()

    def check(self, ids):
        np.testing.assert_array_equal(self.emb.get("a", ids), self.expected)
        np.testing.assert_array_equal(self.emb(ids, train=False), self.expected)

    def test_numbers_and_their_texts_are_the_same_ids(self):
        for kind in (np.int64, np.int32, np.int16, np.int8):
            self.check(np.array([7, -3, 12], kind))
        self.check([7, -3, 12])
        self.check(["7", "-3", "12"])
        self.check([b"7", b"-3", b"12"])
        self.check(np.array(["7", "-3", "12"]))
        self.check(np.array([b"7", b"-3", b"12"]))
        self.check(np.array(["7", -3, "12"], object))
        self.check(np.array([7, 0, -3, 0, 12, 0])[::2])
        self.check(np.array([[7], [-3], [12]]))

    def test_bags_may_be_lists_of_different_lengths(self):
        values, offsets = np.array([7, -3, 12, 12]), np.array([0, 2, 2, 3, 4])
        bags = [[7, -3], [], [12], [12]]
        expected = self.emb((values, offsets), train=False)
        self.assertFalse(expected[1].any())
        texts = [[str(id) for id in bag] for bag in bags]
        arrays = np.empty(4, object)
        arrays[:] = [np.array(bag, np.int64) for bag in bags]
        for ids in (bags, texts, arrays, (["7", "-3", "12", "12"], offsets)):
            np.testing.assert_array_equal(self.emb(ids, train=False), expected)

    def test_large_numbers_and_missing_texts(self):
        large = self.emb.get("a", np.array([2**64 - 1, 2**63, 7], np.uint64))
        texts = self.emb.get("a", [str(2**64 - 1), str(2**63), "7"])
        np.testing.assert_array_equal(large, texts)
        missing = self.emb.get("a", np.array(["x", None, "", float("nan")], object))
        np.testing.assert_array_equal(missing[1], missing[2])
        np.testing.assert_array_equal(missing[1], missing[3])
        self.assertTrue((missing[0] != missing[1]).any())

    def test_texts_of_any_length_and_form(self):
        texts = ["", "ä", "x" * 15, "x" * 33, "x" * 1000, "a\0b", "日本"]
        rows = self.emb.get("a", texts)
        self.assertEqual(len({row.tobytes() for row in rows}), len(texts))
        np.testing.assert_array_equal(self.emb.get("a", texts[::-1])[::-1], rows)
        for at, text in enumerate(texts):
            np.testing.assert_array_equal(self.emb.get("a", [text])[0], rows[at])

    def test_columns_of_data_frames(self):
        numbers, texts = [7, -3, 12], ["7", "-3", "12"]
        lists = [[7, -3], [], [12]]
        of_lists = self.emb(lists, train=False)
        frames = []
        if pandas := module("pandas"):
            frames.append(pandas.DataFrame({"n": numbers, "t": texts, "l": lists}))
            self.check(pandas.Series(texts, dtype="category"))
            self.check(pandas.Series(texts, dtype="string"))
        if polars := module("polars"):
            frames.append(polars.DataFrame({"n": numbers, "t": texts, "l": lists}))
            self.check(polars.Series(texts, dtype=polars.Categorical))
        if arrow := module("pyarrow"):
            table = arrow.table({"n": numbers, "t": texts, "l": lists})
            frames += [table, table.to_batches()[0], arrow.concat_tables([table.slice(0, 1), table.slice(1)])]
            self.check(arrow.array(texts).dictionary_encode())
            self.check(arrow.array(texts, arrow.large_string()))
            nothing = arrow.array([[7, -3], None, [12]])
            np.testing.assert_array_equal(self.emb(nothing, train=False), of_lists)
        for frame in frames:
            self.check(frame["n"])
            self.check(frame["t"])
            np.testing.assert_array_equal(self.emb(frame["l"], train=False), of_lists)
            with stepwell.Embeddings(
                {"a": stepwell.Table(4, init_range=0.5)},
                {name: stepwell.Feature("a") for name in "nt"},
                arrays="numpy",
            ) as emb:
                x = emb(frame)
                np.testing.assert_array_equal(x["n"], self.expected)
                np.testing.assert_array_equal(x["t"], self.expected)

    def test_keyed_jagged_tensors(self):
        """A class with the methods of TorchRec's."""

        class Jagged:
            def __init__(self, values, offsets, weights):
                self._parts = values, offsets, weights

            def values(self):
                return self._parts[0]

            def offsets(self):
                return self._parts[1]

            def weights_or_none(self):
                return self._parts[2]

        class Keyed:
            def __init__(self, of):
                self._of = of

            def keys(self):
                return list(self._of)

            def __getitem__(self, key):
                return self._of[key]

        values, offsets = np.array([7, -3, 12]), np.array([0, 2, 3])
        weights = np.array([1, 2, 3], np.float32)
        for weight, parts in [(None, (values, offsets)), (weights, (values, offsets, weights))]:
            keyed = Keyed({"a": Jagged(values, offsets, weight), "other": None})
            expected = self.emb(parts, train=False)
            np.testing.assert_array_equal(self.emb(keyed, train=False), expected)

    def test_lists_are_not_converted(self):
        rows = self.emb.get("a", [b"ab\0", b"ab", "x\0", "x", "", "nan"])
        self.assertEqual(len({row.tobytes() for row in rows}), 6)
        missing = self.emb.get("a", ["x", None, float("nan")])
        np.testing.assert_array_equal(missing, rows[[3, 4, 4]])
        large = self.emb.get("a", [2**63 + 1, 7])
        np.testing.assert_array_equal(large, self.emb.get("a", [str(2**63 + 1), "7"]))
        for ids in ([1.5, "a"], [True, "a"], [1.5]):
            with self.assertRaisesRegex(TypeError, "give integers or text"):
                self.emb.get("a", ids)
        # A list of arrays has an example in each, however many there are.
        bags = [np.array([7, -3]), np.array([12]), np.array([], int), np.array([7])]
        for count in (2, 3, 4):
            found = self.emb(bags[:count], train=False)
            expected = self.emb([list(bag) for bag in bags[:count]], train=False)
            np.testing.assert_array_equal(found, expected)
            self.assertEqual(len(found), count)

    def test_what_is_no_id_is_refused(self):
        for ids, why in [
            (np.array([1.5, 2.0]), "give integers or text; if ids are missing"),
            (np.array([True, False]), "give integers or text"),
            (np.array([1, object()], object), "an id is object"),
            (np.zeros((2, 2, 2), int), "3 dimensions"),
            (([1, 2], [0.0, 2.0]), "offsets are float64"),
            (([1, 2], [[0, 2]]), "one offset more"),
            (([1, 2], ["0", "2"]), "offsets are <U1"),
        ]:
            with self.assertRaisesRegex((ValueError, TypeError), why):
                self.emb(ids, train=False)
        with self.assertRaisesRegex(ValueError, "not bags"):
            self.emb.get("a", [[1, 2], [3]])
        self.check([7, -3, 12])


if __name__ == "__main__":
    unittest.main()
