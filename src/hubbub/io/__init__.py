"""Files in and out: values that people gave, batches of reports, plans and schemas; read in blocks, written whole."""
