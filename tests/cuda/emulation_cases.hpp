// What: how the emulation's own tests launch: a misuse must be reported with a text, and an order
// of threads is set for a while.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "device_code.hpp"

namespace epibias::cuda::test {

// What the emulation says of a launch; empty where it finds nothing.
template <typename Launch>
std::string misuse_of(Launch launch) {
    try {
        launch();
    } catch (const emulation::Misuse& misuse) {
        return misuse.what();
    }
    return "";
}

inline bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

#define CHECK_MISUSE(launch, part)                          \
    do {                                                    \
        const std::string report = test::misuse_of(launch); \
        CAPTURE(report);                                    \
        CHECK(test::contains(report, part));                \
        CHECK(test::contains(report, "test_emulation"));    \
    } while (false)

// Sets EPIBIAS_EMULATION_ORDER and puts back what the caller of the tests had set.
class OrderOfThreads {
  public:
    explicit OrderOfThreads(const char* order) {
        const char* previous = std::getenv(kVariable);
        had_one_ = previous != nullptr;
        if (had_one_) previous_ = previous;
        setenv(kVariable, order, 1);
    }
    ~OrderOfThreads() {
        if (had_one_) {
            setenv(kVariable, previous_.c_str(), 1);
        } else {
            unsetenv(kVariable);
        }
    }
    OrderOfThreads(const OrderOfThreads&) = delete;
    OrderOfThreads& operator=(const OrderOfThreads&) = delete;

  private:
    static constexpr const char* kVariable = "EPIBIAS_EMULATION_ORDER";
    bool had_one_ = false;
    std::string previous_;
};

// Exit status of a child process that launches: 0 where nobody complains, 3 after a Misuse, a
// sanitizer's own status where it stops the program.
template <typename Launch>
int status_of_child(Launch launch) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        static_cast<void>(std::freopen("/dev/null", "w", stderr));
        const bool misused = !misuse_of(launch).empty();
        std::exit(misused ? 3 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace epibias::cuda::test
