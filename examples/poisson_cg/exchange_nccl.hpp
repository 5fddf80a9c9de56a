// The exchange with NCCL alone.
#pragma once
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "exchange.hpp"
#include "nccl.hpp"
#include "parallel.hpp"
#include "problem.hpp"

namespace poisson {

class NcclExchange final : public Exchange {
 public:
  NcclExchange(std::unique_ptr<Nccl> nccl, Device& device, const Slab& slab)
      : nccl_(std::move(nccl)),
        device_(device),
        neighbours_(slab.neighbours()),
        layer_(slab.layer()) {}

  double* numbers(std::size_t count) override {
    return numbers_.emplace_back(device_, count).data();
  }

  void sum(double* number) override { nccl_->sum(number, 1, device_.stream().native()); }

  void halo(double* field) override {
    nccl_->group_start();
    for (const Neighbour& neighbour : neighbours_) {
      nccl_->send(field + neighbour.send, layer_, neighbour.rank, device_.stream().native());
      nccl_->recv(field + neighbour.receive, layer_, neighbour.rank, device_.stream().native());
    }
    nccl_->group_end();
  }

  bool capturable() const override { return true; }

 private:
  std::unique_ptr<Nccl> nccl_;
  Device& device_;
  std::vector<Neighbour> neighbours_;
  std::size_t layer_;
  std::deque<Array> numbers_;
};

}  // namespace poisson
