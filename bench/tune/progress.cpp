#include "bench/tune/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace plait::bench {

TuneProgress::TuneProgress() : on_terminal_(::isatty(STDERR_FILENO) == 1) {}

TuneProgress::~TuneProgress() { hide(); }

void TuneProgress::hide() const {
  if (begun_ && on_terminal_) std::fputs("\r\x1b[K", stderr);
}

void TuneProgress::show(const std::string& step, const std::string& detail, double done,
                        double most_seconds) {
  if (!on_terminal_ && step == step_) return;
  step_ = step;
  begun_ = true;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  const double left = std::max(0.0, std::min(passed.count() * (1 - done) / std::max(done, 1e-3),
                                             most_seconds - passed.count()));
  if (on_terminal_)
    fmt::print(stderr, "\r\x1b[K{:3.0f} %  {}, {}  about {:.0f} s left", 100 * done, step, detail,
               left);
  else fmt::print(stderr, "{:3.0f} %  {}  about {:.0f} s left\n", 100 * done, step, left);
  std::fflush(stderr);
}

}  // namespace plait::bench
