// The main function of every test executable, compiled once because it is the slow part of doctest.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
