#include "epibias/parallel.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "epibias/numeric.hpp"

namespace epibias {

namespace {

constexpr int kNotChosen = 0;
std::atomic<int> chosen_threads{kNotChosen};

// Set while this thread runs tasks: a parallel_for inside a task runs inline.
thread_local bool inside_parallel_for = false;

std::string allowed_text() {
    return "an integer from 1 to " + std::to_string(kMaxThreads);
}

int threads_from_environment() {
    const char* text = std::getenv("EPIBIAS_THREADS");
    if (text == nullptr || *text == '\0') return kNotChosen;
    int value = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, value);
    if (error != std::errc{} || stop != end || value < 1 || value > kMaxThreads) {
        throw std::invalid_argument("EPIBIAS_THREADS: expected " + allowed_text() + ", got '" +
                                    text + "'");
    }
    return value;
}

int threads_chosen() {
    const int chosen = chosen_threads.load(std::memory_order_relaxed);
    return chosen != kNotChosen ? chosen : threads_from_environment();
}

int available_processors() {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// One call of parallel_for: hands out tasks in ascending order and keeps the exception of the
// lowest task that failed. Every task below a failed one was handed out before it, so which
// exception is kept does not depend on timing as long as tasks fail for reasons of their own.
class Job {
  public:
    Job(std::int64_t n_tasks, const Task& run) : n_tasks_(n_tasks), run_(run) {}

    void work(int thread) {
        const DefaultFloatEnvironment environment;
        const bool outer = std::exchange(inside_parallel_for, true);
        for (;;) {
            const std::int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
            if (task >= n_tasks_ || failed_.load(std::memory_order_relaxed)) break;
            try {
                run_(task, thread);
            } catch (...) {
                keep(task, std::current_exception());
            }
        }
        inside_parallel_for = outer;
    }

    void rethrow() const {
        if (exception_) std::rethrow_exception(exception_);
    }

  private:
    void keep(std::int64_t task, std::exception_ptr exception) {
        const std::scoped_lock lock(mutex_);
        failed_.store(true, std::memory_order_relaxed);
        if (task < failed_task_) {
            failed_task_ = task;
            exception_ = std::move(exception);
        }
    }

    std::int64_t n_tasks_;
    const Task& run_;
    std::atomic<std::int64_t> next_{0};
    std::atomic<bool> failed_{false};
    std::mutex mutex_;
    std::int64_t failed_task_ = std::numeric_limits<std::int64_t>::max();
    std::exception_ptr exception_;
};

// Signals belong to the threads of the application: block all of them in ours.
class BlockedSignals {
  public:
    BlockedSignals() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &saved_);
    }
    ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;

  private:
    sigset_t saved_{};
};

// Parked threads of one process. Never destroyed: at exit the threads are parked or hold nothing,
// and a child of fork, which has the memory but not the threads, leaves its parent's pool alone.
class Pool {
  public:
    explicit Pool(Pool* previous) : process_(getpid()), previous_(previous) {}

    [[nodiscard]] bool belongs_to(pid_t process) const { return process_ == process; }

    // Runs the job with up to `wanted` helpers; false, with nothing run, when the pool is in use.
    bool run(Job& job, int wanted) {
        const std::unique_lock user(users_, std::try_to_lock);
        if (!user.owns_lock()) return false;
        start_threads(wanted);
        {
            const std::scoped_lock lock(mutex_);
            job_ = &job;
            ++job_number_;
            n_wanted_ = wanted;
            n_joined_ = 0;
        }
        wake_.notify_all();
        job.work(0);
        std::unique_lock lock(mutex_);
        // A thread that has not woken up by now finds nothing to do, so nobody waits for it.
        job_ = nullptr;
        done_.wait(lock, [this] { return n_working_ == 0; });
        return true;
    }

  private:
    void start_threads(int wanted) {
        const BlockedSignals signals;
        try {
            for (; n_started_ < wanted; ++n_started_) std::thread([this] { serve(); }).detach();
        } catch (const std::system_error&) {
            return;  // no more to be had: those there are, or the caller alone, do the work
        }
    }

    void serve() {
        std::uint64_t seen = 0;
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] {
                return job_ != nullptr && job_number_ != seen && n_joined_ < n_wanted_;
            });
            seen = job_number_;
            Job* const job = job_;
            const int thread = ++n_joined_;
            ++n_working_;
            lock.unlock();
            job->work(thread);
            lock.lock();
            if (--n_working_ == 0) done_.notify_one();
        }
    }

    const pid_t process_;
    [[maybe_unused]] Pool* const
        previous_;      // keeps a parent's pool reachable, so that leak checkers see it as kept
    std::mutex users_;  // held by the one parallel_for that has the pool; guards n_started_
    int n_started_ = 0;
    std::mutex mutex_;  // guards everything below
    std::condition_variable wake_;
    std::condition_variable done_;
    Job* job_ = nullptr;
    std::uint64_t job_number_ = 0;
    int n_wanted_ = 0;
    int n_joined_ = 0;
    int n_working_ = 0;
};

// No lock here: a lock could be held by another thread at the moment of a fork, for ever.
Pool& pool_of_this_process() {
    static std::atomic<Pool*> current{nullptr};
    const pid_t process = getpid();
    Pool* pool = current.load(std::memory_order_acquire);
    while (pool == nullptr || !pool->belongs_to(process)) {
        auto* const fresh = new Pool(pool);
        if (current.compare_exchange_strong(pool, fresh, std::memory_order_acq_rel)) return *fresh;
        delete fresh;  // another thread was first; `pool` is now that thread's
    }
    return *pool;
}

}  // namespace

int n_threads() {
    const int chosen = threads_chosen();
    return chosen != kNotChosen ? chosen : available_processors();
}

void set_n_threads(int n_threads) {
    if (n_threads != kNotChosen && (n_threads < 1 || n_threads > kMaxThreads)) {
        throw std::invalid_argument("n_threads: expected " + allowed_text() +
                                    ", or 0 to undo an earlier setting, got " +
                                    std::to_string(n_threads));
    }
    chosen_threads.store(n_threads, std::memory_order_relaxed);
}

int threads_worth_waking(double operations) {
    // ~40 multiply-adds per nanosecond on one core, so 0.3 ms are about 1.2e7.
    constexpr double kSmallWork = 1.2e7;
    // Asked first: a wrong EPIBIAS_THREADS is an error at any size. The processors are not asked
    // for: that is a system call, and one query's candidates take 5 µs.
    const int chosen = threads_chosen();
    if (operations < kSmallWork) return 1;
    return chosen != kNotChosen ? chosen : available_processors();
}

void parallel_for(std::int64_t n_tasks, const Task& run, int max_threads) {
    if (n_tasks <= 0) return;
    const std::int64_t allowed = max_threads > 0 ? max_threads : n_threads();
    const int helpers = static_cast<int>(std::min(allowed, n_tasks)) - 1;
    Job job(n_tasks, run);
    const bool alone = inside_parallel_for || helpers == 0;
    if (alone || !pool_of_this_process().run(job, helpers)) job.work(0);
    job.rethrow();
}

}  // namespace epibias
