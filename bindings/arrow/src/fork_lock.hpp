// A lock that a forked child can take, whoever held it in the parent.
#pragma once

#include <pthread.h>

#include <mutex>
#include <vector>

namespace tidegate::arrowfs {

// Only for locks that live until the process ends. Those who hold one call nothing that locks, or forks.
class ForkLock {
  public:
    ForkLock() {
        const std::lock_guard<std::mutex> lock(Registered().mutex);
        if (Registered().locks.empty()) pthread_atfork(&LockAll, &UnlockAll, &UnlockAll);
        Registered().locks.push_back(this);
    }
    ForkLock(const ForkLock &) = delete;
    ForkLock &operator=(const ForkLock &) = delete;

    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }

  private:
    struct All {
        std::mutex mutex;
        std::vector<ForkLock *> locks;
    };
    static All &Registered() {
        static auto &all = *new All;
        return all;
    }
    static void LockAll() {
        Registered().mutex.lock();
        for (ForkLock *each : Registered().locks) each->lock();
    }
    static void UnlockAll() {
        for (ForkLock *each : Registered().locks) each->unlock();
        Registered().mutex.unlock();
    }

    std::mutex mutex_;
};

}  // namespace tidegate::arrowfs
