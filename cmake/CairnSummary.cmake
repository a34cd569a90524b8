# Filled by the house work.
