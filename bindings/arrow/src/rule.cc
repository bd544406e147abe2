#include "rule.hpp"

#include <atomic>

namespace tidegate::arrowfs::rule {

namespace {

std::atomic<const tidegate_arrow_python *> known = nullptr;

// The lock of the interpreter, and no exception in flight: a destructor may run while one is.
class Held {
  public:
    explicit Held(const tidegate_arrow_python &python) : python_(python), state_(python.ensure()) {
        python_.fetch(&kind_, &value_, &traceback_);
    }
    ~Held() {
        python_.restore(kind_, value_, traceback_);
        python_.release(state_);
    }
    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;

  private:
    const tidegate_arrow_python &python_;
    const int state_;
    void *kind_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

// Python, if this thread runs it. Arrow's own threads don't: no exception is in flight there. They must not ask Python for
// its lock, either: it ends a thread that asks while the program exits, by a forced unwinding, and that ends the process
// ("terminate called without an active exception") where it meets a destructor.
const tidegate_arrow_python *OfThisThread() {
    const tidegate_arrow_python *python = known;
    return python != nullptr && python->this_thread_state() != nullptr ? python : nullptr;
}

}  // namespace

void Set(const tidegate_arrow_python &python) {
    // Never freed: streams may be closed until the process is gone.
    known = new tidegate_arrow_python(python);
}

::arrow::Result<bool> Opened(std::int64_t stream, const std::string &url) {
    const tidegate_arrow_python *python = OfThisThread();
    if (python == nullptr || python->is_finalizing()) return false;
    const Held held(*python);
    if (python->opened(stream, url.c_str()) != 0) return true;
    return ::arrow::Status::IOError("Python has failed to note the stream, so it was not opened: ", url);
}

Verdict Closing(std::int64_t stream) {
    const tidegate_arrow_python *python = OfThisThread();
    if (python == nullptr) return Verdict::publish_unasked;
    if (python->is_finalizing()) return Verdict::interpreter_ends;
    const Held held(*python);
    switch (python->closing(stream)) {
        case 1:
            return Verdict::publish;
        case 2:
            return Verdict::discard;
        default:
            return Verdict::failed;
    }
}

}  // namespace tidegate::arrowfs::rule
