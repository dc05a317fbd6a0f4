// The main of every test program (doctest), compiled once. Run one with --help for its options.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
