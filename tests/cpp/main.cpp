// Runs every tests/cpp/test_*.cpp. `epibias_tests -tc="cosine*"` picks some.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
