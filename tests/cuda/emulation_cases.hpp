// What: how the emulation's own tests launch: a misuse must be reported with a text, and an order
// of threads is set for a while.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
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

// Launches that a sanitizer stops, each run by a process of its own: `epibias_cuda_tests` with this
// variable. Not a fork: ThreadSanitizer ignores everything in the fork of a process that has
// fibers.
inline constexpr const char* kChildVariable = "EPIBIAS_CUDA_TESTS_CHILD";

class ChildCase {
  public:
    ChildCase(const char* name, void (*launch)()) : name_(name) { cases()[name] = launch; }

    // 0 where nobody complains, 3 after a Misuse, a sanitizer's own where it stops the program.
    [[nodiscard]] int status() const {
        setenv(kChildVariable, name_, 1);
        char program[] = "/proc/self/exe";
        char* arguments[] = {program, nullptr};
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        pid_t child = 0;
        const int error = posix_spawn(&child, program, &actions, nullptr, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
        unsetenv(kChildVariable);
        REQUIRE(error == 0);
        int status = 0;
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

    static int run(const char* name) { return misuse_of(cases().at(name)).empty() ? 0 : 3; }

  private:
    static std::map<std::string, void (*)()>& cases() {
        static std::map<std::string, void (*)()> cases;
        return cases;
    }

    const char* name_;
};

}  // namespace epibias::cuda::test
