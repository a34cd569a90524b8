# Filled by the install work.
