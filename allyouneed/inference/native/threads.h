// Threads that go through one function side by side and wait for one another at barriers.
#pragma once
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

inline void pause_a_moment(int n_so_far) {
    if (n_so_far > 2000) {
        std::this_thread::yield();  // more threads than cores: let the late one run
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// The threads of one process, and what they wait at.
class Team {
   public:
    // As many threads as asked for, or as the system gives.
    explicit Team(int n_threads) : process_(getpid()) {
        workers_.reserve(n_threads);
        try {
            for (int i = 1; i < n_threads; ++i) workers_.emplace_back(&Team::loop, this, i);
        } catch (const std::exception&) {  // and those that have begun must not be left alone
        }
        n_threads_ = 1 + (int)workers_.size();
    }
    ~Team() {
        call(nullptr);
        for (auto& worker : workers_) worker.join();
    }

    int count() const { return n_threads_; }

    bool is_of_this_process() const { return process_ == getpid(); }

    void run(const std::function<void(int)>& work) {
        call(&work);
        work(0);
        barrier();
    }

    void barrier() {
        const unsigned phase = phase_.load(std::memory_order_relaxed);
        if (arrived_.fetch_add(1) + 1 == n_threads_) {
            arrived_.store(0);
            phase_.store(phase + 1);
            return;
        }
        for (int n = 0; phase_.load(std::memory_order_acquire) == phase; ++n) pause_a_moment(n);
    }

   private:
    static constexpr int PATIENCE = 10000;  // pauses, a fraction of a millisecond

    void call(const std::function<void(int)>* work) {
        work_ = work;
        {
            std::lock_guard<std::mutex> guard(mutex_);
            ++round_;
        }
        wake_.notify_all();
    }

    void loop(int thread) {
        for (unsigned round = 0;; ++round) {
            for (int n = 0; round_ == round && n < PATIENCE; ++n) pause_a_moment(0);
            if (round_ == round) {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return round_ != round; });
            }
            if (!work_) return;
            (*work_)(thread);
            barrier();
        }
    }

    int n_threads_ = 1;  // known before the first round
    const pid_t process_;
    const std::function<void(int)>* work_ = nullptr;  // of this round; null: go home
    std::atomic<unsigned> round_{0};
    std::mutex mutex_;
    std::condition_variable wake_;
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<unsigned> phase_{0};
    std::vector<std::thread> workers_;  // the last member: they use the others
};

class Threads {
   public:
    explicit Threads(int n_threads) : most_(n_threads) {}
    ~Threads() { let_go_of_the_parents(); }

    // Those that can ever be at work.
    int most() const { return most_; }

    // Those that are at work, or were last.
    int count() const { return n_at_work_; }

    // Lets all threads work, or only the caller's where there is too little to share.
    void share_work(bool shared) {
        n_at_work_ = 1;
        if (!shared || most_ == 1) return;
        let_go_of_the_parents();
        if (!team_) team_ = std::make_unique<Team>(most_);
        n_at_work_ = team_->count();
    }

    // Calls `work(thread)` in every thread at work and returns when all are done.
    void run(const std::function<void(int)>& work) {
        if (n_at_work_ == 1) return work(0);
        team_->run(work);
    }

    // Returns when all threads at work have come here.
    void barrier() {
        if (n_at_work_ > 1) team_->barrier();
    }

   private:
    // Threads do not survive a fork, and what they waited at cannot be taken down without them.
    void let_go_of_the_parents() {
        if (team_ && !team_->is_of_this_process()) team_.release();
    }

    const int most_;
    int n_at_work_ = 1;
    std::unique_ptr<Team> team_;
};

// The part of 0 … n that is this thread's.
struct Share {
    int begin, end;
    Share(int n, int thread, int n_threads)
        : begin((int)((int64_t)n * thread / n_threads)),
          end((int)((int64_t)n * (thread + 1) / n_threads)) {}
};
