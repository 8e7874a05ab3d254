"""From records to facts, summed over panes, which sliding windows are made of."""
