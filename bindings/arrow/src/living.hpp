// What lives of a kind, without being kept.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "fork_lock.hpp"

namespace tidegate::arrowfs {

// Never destroyed, as its lock.
template <class T>
class Living {
  public:
    void Add(const std::shared_ptr<T> &one) {
        const std::lock_guard<ForkLock> lock(lock_);
        // Those that are gone leave when the list has doubled: so each is looked at twice or so.
        if (all_.size() >= most_) {
            std::erase_if(all_, [](const auto &each) { return each.expired(); });
            most_ = 64 + 2 * all_.size();
        }
        all_.push_back(one);
    }
    std::vector<std::shared_ptr<T>> All() {
        std::vector<std::shared_ptr<T>> all;
        const std::lock_guard<ForkLock> lock(lock_);
        for (const auto &each : all_)
            if (auto one = each.lock()) all.push_back(std::move(one));
        return all;
    }

  private:
    ForkLock lock_;
    std::vector<std::weak_ptr<T>> all_;
    std::size_t most_ = 64;
};

}  // namespace tidegate::arrowfs
