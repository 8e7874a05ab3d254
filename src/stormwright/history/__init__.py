"""What a cluster did, and what was decided about it, kept for months: staged locally, taken into tables by Spark.

::

    stream, controller ─▶ Staging ─▶ ingest ─▶ Store ─▶ reports, SQL, time travel, replay
                          (files)    (Spark)   (Parquet or Delta)
"""
