// The thread pool: every task once, exceptions, nesting, several callers, fork.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "epibias/parallel.hpp"

using epibias::parallel_for;

namespace {

std::int64_t sum_of_tasks(std::int64_t n_tasks, int threads) {
    std::atomic<std::int64_t> sum{0};
    parallel_for(n_tasks, [&](std::int64_t task, int) { sum += task; }, threads);
    return sum;
}

}  // namespace

TEST_CASE("every task runs once, for any number of threads and tasks") {
    for (const int threads : {1, 2, 3, 8}) {
        for (const std::int64_t n_tasks : {0, 1, 2, 7, 1000}) {
            std::vector<std::atomic<int>> runs(static_cast<std::size_t>(n_tasks));
            parallel_for(
                n_tasks, [&](std::int64_t task, int) { ++runs[static_cast<std::size_t>(task)]; },
                threads);
            for (const auto& count : runs) CHECK(count == 1);
        }
    }
}

TEST_CASE("tasks that run at the same time have different thread numbers") {
    constexpr int kThreads = 4;
    std::vector<std::atomic<bool>> busy(kThreads);
    std::atomic<int> clashes{0};
    parallel_for(
        5000,
        [&](std::int64_t, int thread) {
            auto& own = busy[static_cast<std::size_t>(thread)];
            if (own.exchange(true)) ++clashes;
            own.store(false);
        },
        kThreads);
    CHECK(clashes == 0);
}

TEST_CASE("the exception of the lowest failed task reaches the caller, and the pool lives on") {
    for (const int threads : {1, 3}) {
        for (int repeat = 0; repeat < 50; ++repeat) {
            const auto fail = [](std::int64_t task, int) {
                if (task >= 40) throw std::runtime_error("task " + std::to_string(task));
            };
            CHECK_THROWS_WITH_AS(parallel_for(400, fail, threads), "task 40", std::runtime_error);
        }
        CHECK(sum_of_tasks(100, threads) == 4950);
    }
}

TEST_CASE("a nested parallel_for runs inline") {
    std::atomic<std::int64_t> sum{0};
    std::atomic<int> elsewhere{0};
    parallel_for(
        6,
        [&](std::int64_t, int) {
            const auto outer = std::this_thread::get_id();
            parallel_for(
                10,
                [&](std::int64_t task, int thread) {
                    sum += task;
                    if (thread != 0 || std::this_thread::get_id() != outer) ++elsewhere;
                },
                3);
        },
        3);
    CHECK(sum == 6 * 45);
    CHECK(elsewhere == 0);
}

TEST_CASE("several threads may call at once") {
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (int caller = 0; caller < 4; ++caller) {
        callers.emplace_back([&] {
            for (int repeat = 0; repeat < 200; ++repeat) {
                if (sum_of_tasks(50, 3) != 1225) ++wrong;
            }
        });
    }
    for (auto& caller : callers) caller.join();
    CHECK(wrong == 0);
}

TEST_CASE("the number of threads is checked") {
    const int before = epibias::n_threads();
    CHECK_THROWS_WITH_AS(
        epibias::set_n_threads(-1),
        "n_threads: expected an integer from 1 to 1024, or 0 to undo an earlier setting, got -1",
        std::invalid_argument);
    CHECK_THROWS_AS(epibias::set_n_threads(1025), std::invalid_argument);
    CHECK(epibias::n_threads() == before);
    epibias::set_n_threads(3);
    CHECK(epibias::n_threads() == 3);
    CHECK(epibias::threads_worth_waking(100) == 1);
    CHECK(epibias::threads_worth_waking(1e9) == 3);
    epibias::set_n_threads(0);
    CHECK(epibias::n_threads() == before);  // nothing else in these tests leaves a setting
}

#if !defined(__SANITIZE_THREAD__)  // which does not support threads after a fork
TEST_CASE("a forked child makes its own pool, and so does the child's child") {
    CHECK(sum_of_tasks(1000, 3) == 499500);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(20);  // a hang ends as a signal, which the parent reports
        bool right = sum_of_tasks(1000, 3) == 499500;
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            alarm(20);
            _exit(sum_of_tasks(1000, 2) == 499500 ? 0 : 1);
        }
        int status = 0;
        waitpid(grandchild, &status, 0);
        right = right && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        _exit(right ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(sum_of_tasks(1000, 3) == 499500);
}
#endif
