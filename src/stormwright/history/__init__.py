"""History of a cluster and its decisions for months: staged locally, ingested into tables by Spark.

::

    stream, controller ─▶ Staging ─▶ ingest ─▶ Store ─▶ reports, SQL, time travel, replay
                          (files)    (Spark)   (Parquet or Delta)
"""
