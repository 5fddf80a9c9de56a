// Algorithms of tests that let one of the library's do the work.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/algorithm.hpp"

namespace plait::test {

/// Passes all on to `original`. Only a call that names it gets it.
class ForwardingAlgorithm : public Algorithm {
 public:
  ForwardingAlgorithm(std::string name, std::string original,
                      Collective collective = Collective::all_reduce)
      : name_(std::move(name)), original_(std::move(original)), collective_(collective) {}
  StaticName name() const final { return StaticName::lasting(name_); }
  Collective collective() const final { return collective_; }
  std::string_view summary() const final { return "another one of the library's"; }
  Support supports(const Call& call, const Topology& topology) const override {
    return original().supports(call, topology);
  }
  Resources resources(const Topology& topology) const override {
    return original().resources(topology);
  }
  SharedResources shared(const Topology& topology) const override {
    return original().shared(topology);
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return original().shapes(call, topology);
  }
  LaunchShape fitted(LaunchShape shape, const Call& call, const Topology& topology) const override {
    return original().fitted(shape, call, topology);
  }
  double estimate(const Call&, const Topology&) const override { return 1e12; }
  bool reduces_in_rank_order(const Call& call, const Topology& topology) const override {
    return original().reduces_in_rank_order(call, topology);
  }
  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    original().enqueue(call, buffers, shape, context);
  }

 protected:
  const Algorithm& original() const { return *Registry::instance().find(original_, collective_); }

 private:
  std::string name_, original_;
  Collective collective_;
};

}  // namespace plait::test
