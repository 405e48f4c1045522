"""Measures of retrieval, bias and answers: one value a query, and intervals over queries."""
