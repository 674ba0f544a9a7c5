"""Spark: scores a column of lists of different lengths with an .rvm file, loaded once in each partition.

    pip install pyspark pandas pyarrow relayvm-runtime
    python examples/deploy/spark_score.py words.rvm

`predict_batch_udf` of pyspark.ml stacks the rows of a batch, so it takes rows of one length only.
"""

import os
import sys

import pandas
from pyspark import SparkFiles
from pyspark.sql import SparkSession


def score(frame, path):
    """The frame's `id` with the score of its `words`."""
    frame.sparkSession.sparkContext.addFile(path)  # to every node, once: its workers map one file
    name = os.path.basename(path)

    def score_partition(batches):
        import relayvm_runtime
        program = relayvm_runtime.load(SparkFiles.get(name))
        for batch in batches:
            yield pandas.DataFrame({"id": batch["id"], "score": [float(program(words)) for words in batch["words"]]})

    return frame.mapInPandas(score_partition, "id long, score double")


if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    rows = pandas.DataFrame({"id": range(1000), "words": [list(range(1 + i % 7)) for i in range(1000)]})
    score(spark.createDataFrame(rows), sys.argv[1]).orderBy("id").show(5)
