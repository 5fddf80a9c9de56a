// The exchange with MPI alone. Data pass through host memory, because MPI may be unable to read a
// GPU's memory.
#pragma once
#include <mpi.h>

#include <array>
#include <cstddef>
#include <deque>
#include <vector>

#include "exchange.hpp"
#include "parallel.hpp"
#include "problem.hpp"

namespace poisson {

class MpiExchange final : public Exchange {
 public:
  MpiExchange(MPI_Comm comm, Device& device, const Slab& slab)
      : comm_(comm),
        device_(device),
        neighbours_(slab.neighbours()),
        layer_(slab.layer()),
        staged_(device, staged ? 4 * layer_ : 0) {}

  double* numbers(std::size_t count) override {
    return numbers_.emplace_back(device_, count).data();
  }

  void sum(double* number) override {
    double* const seen = read(number, 0, 1);
    device_.synchronize();
    MPI_Allreduce(MPI_IN_PLACE, seen, 1, MPI_DOUBLE, MPI_SUM, comm_);
    write(number, 0, 1);
  }

  void halo(double* field) override {
    std::array<double*, 2> sent{};
    for (std::size_t k = 0; k < neighbours_.size(); ++k)
      sent[k] = read(field + neighbours_[k].send, k * layer_, layer_);
    device_.synchronize();
    std::array<MPI_Request, 4> requests{};
    int started = 0;
    for (std::size_t k = 0; k < neighbours_.size(); ++k) {
      const Neighbour& neighbour = neighbours_[k];
      double* const received =
          staged ? staged_.data() + (2 + k) * layer_ : field + neighbour.receive;
      MPI_Irecv(received, static_cast<int>(layer_), MPI_DOUBLE, neighbour.rank, 0, comm_,
                &requests[started++]);
      MPI_Isend(sent[k], static_cast<int>(layer_), MPI_DOUBLE, neighbour.rank, 0, comm_,
                &requests[started++]);
    }
    MPI_Waitall(started, requests.data(), MPI_STATUSES_IGNORE);
    for (std::size_t k = 0; k < neighbours_.size(); ++k)
      write(field + neighbours_[k].receive, (2 + k) * layer_, layer_);
  }

  bool capturable() const override { return false; }

 private:
  static constexpr bool staged = target != plait::BackendKind::host;

  /// The address where MPI finds `count` numbers of the device, after `synchronize`.
  double* read(double* from, std::size_t place, std::size_t count) {
    if constexpr (!staged) return from;
    device_.to_host(staged_.data() + place, from, count);
    return staged_.data() + place;
  }
  void write(double* to, std::size_t place, std::size_t count) {
    if constexpr (staged) device_.to_device(to, staged_.data() + place, count);
  }

  MPI_Comm comm_;
  Device& device_;
  std::vector<Neighbour> neighbours_;
  std::size_t layer_;
  StagingArray staged_;
  std::deque<Array> numbers_;
};

}  // namespace poisson
