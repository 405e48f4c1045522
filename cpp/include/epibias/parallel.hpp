// What: the one thread pool of the library.
//
// Threads are parked between calls. They are started at the first call that wants them, and belong
// to the process that started them: a forked child makes its own. Tasks are handed out one by one
// in ascending order, so which thread runs a task varies; callers must not let results depend on
// it.
//
// Number of threads: set_n_threads, else EPIBIAS_THREADS, else the processors that this process may
// run on. A value outside 1 … 1024 throws std::invalid_argument; set_n_threads(0) undoes an earlier
// setting.
#pragma once

#include <cstdint>
#include <functional>

namespace epibias {

inline constexpr int kMaxThreads = 1024;

[[nodiscard]] int n_threads();
void set_n_threads(int n_threads);

// Called with a task in [0, n_tasks) and the number of the thread that runs it, in
// [0, max_threads); two tasks that run at the same time never have the same thread number.
using Task = std::function<void(std::int64_t task, int thread)>;

// Runs every task once and returns when all are done. Runs on the calling thread alone when there
// is one task or one thread, inside another parallel_for, and while another thread of the process
// has the pool. When tasks throw, no further ones start, and the exception of the lowest failed
// task is rethrown here. Tasks run in the default floating-point environment (numeric.hpp).
//
// `max_threads` 0 means n_threads(). Waking a thread costs up to 70 µs: callers give less than
// about 0.3 ms of work to one thread (`threads_worth_waking`).
void parallel_for(std::int64_t n_tasks, const Task& run, int max_threads = 0);

// 1 for less than ~0.3 ms of work, else n_threads(); `operations` counts multiply-adds.
[[nodiscard]] int threads_worth_waking(double operations);

}  // namespace epibias
