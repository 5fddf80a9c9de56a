// A bootstrap between whose calls something happens.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "bootstrap/bootstrap_hooks.hpp"
#include "plait/bootstrap.hpp"

namespace plait::test {

/// Calls `before` and `after` the first all-gather; in an exchange of descriptors this is when the
/// rank's own socket is bound. `after` may change what was gathered.
class InterferingBootstrap final : public Bootstrap {
 public:
  InterferingBootstrap(Bootstrap& inner, std::function<void()> before,
                       std::function<void(void*)> after = nullptr)
      : inner_(inner), before_(std::move(before)), after_(std::move(after)) {
    set_timeout(inner.timeout());
  }
  int rank() const noexcept override { return inner_.rank(); }
  int size() const noexcept override { return inner_.size(); }
  void all_gather(const void* in, void* out, std::size_t bytes) override {
    if (before_) std::exchange(before_, nullptr)();
    inner_.all_gather(in, out, bytes);
    if (after_) std::exchange(after_, nullptr)(out);
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    inner_.broadcast(data, bytes, root);
  }
  void barrier() override { inner_.barrier(); }
  void abandon(const std::string& why, bool rank_lost) noexcept override {
    BootstrapHooks::abandon(inner_, why, rank_lost);
  }
  std::unique_ptr<Bootstrap> split(int color, int key) override { return inner_.split(color, key); }

 private:
  Bootstrap& inner_;
  std::function<void()> before_;
  std::function<void(void*)> after_;
};

}  // namespace plait::test
