"""Files: values in CSV, JSON lines and Parquet, batches of reports, plans and schemas."""
