"""Studies, audits, attacks and demonstrations."""
