"""Detection quality on public labelled data: data sets, scoring rules, detectors behind one interface, the report."""
