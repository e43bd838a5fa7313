"""The issuer of tokens: signs blinded requests, one per account and task."""
