// A test that nobody builds.
