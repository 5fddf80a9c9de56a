// Conjugate gradients. Only `residual` and `solution` wait for the device: the coefficients alpha
// and beta never leave it.
#pragma once
#include <cmath>
#include <cstddef>
#include <vector>

#include "exchange.hpp"
#include "parallel.hpp"
#include "problem.hpp"

namespace poisson {

class Solver {
 public:
  /// Solves A x = b, with the 7-point stencil as A.
  Solver(Device& device, const Slab& slab, Exchange& exchange, const std::vector<double>& b)
      : device_(device),
        slab_(slab),
        exchange_(exchange),
        b_(device, slab.points()),
        x_(device, slab.points()),
        r_(device, slab.points()),
        p_(device, slab.points()),
        q_(device, slab.points()),
        numbers_(exchange.numbers(5)) {
    device_.to_device(b_.data(), b.data(), b.size());
    device_.synchronize();
  }

  /// x = 0, r = p = b.
  void start() {
    const auto b = b_.view(), x = x_.view(), r = r_.view(), p = p_.view();
    device_.sum_points(
        rr(), POISSON_LAMBDA(std::size_t i) {
          x[i] = 0;
          r[i] = p[i] = b[i];
          return b[i] * b[i];
        });
    exchange_.sum(rr());
  }

  void iterate() {
    const auto x = x_.view(), r = r_.view(), p = p_.view(), q = q_.view();
    const std::size_t row = slab_.row(), layer = slab_.layer();
    double *const rr = this->rr(), *const next = next_rr(), *const pq = this->pq(),
                  *const alpha = this->alpha(), *const beta = this->beta();

    // q = A p
    exchange_.halo(p_.data());
    device_.sum_points(
        pq, POISSON_LAMBDA(std::size_t i) {
          q[i] = 6 * p[i] - p[i - 1] - p[i + 1] - p[i - row] - p[i + row] - p[i - layer] -
                 p[i + layer];
          return p[i] * q[i];
        });
    // alpha = (r, r) / (p, q). If r = 0, which small problems reach, x and r stay unchanged.
    exchange_.sum(pq);
    device_.once(POISSON_LAMBDA() { *alpha = *pq > 0 ? *rr / *pq : 0; });
    // x += alpha p, r -= alpha q
    device_.sum_points(
        next, POISSON_LAMBDA(std::size_t i) {
          x[i] += *alpha * p[i];
          r[i] -= *alpha * q[i];
          return r[i] * r[i];
        });
    // beta = (r, r) / (r, r) before
    exchange_.sum(next);
    device_.once(POISSON_LAMBDA() {
      *beta = *rr > 0 ? *next / *rr : 0;
      *rr = *next;
    });
    // p = r + beta p
    device_.for_each_point(POISSON_LAMBDA(std::size_t i) { p[i] = r[i] + *beta * p[i]; });
  }

  /// The 2-norm of r over all ranks. Waits.
  double residual() {
    double squared = 0;
    device_.to_host(&squared, rr(), 1);
    device_.synchronize();
    return std::sqrt(squared);
  }

  /// This rank's part of x. Waits.
  std::vector<double> solution() {
    std::vector<double> x(slab_.points());
    device_.to_host(x.data(), x_.data(), x.size());
    device_.synchronize();
    return x;
  }

 private:
  double* rr() const { return numbers_; }
  double* next_rr() const { return numbers_ + 1; }
  double* pq() const { return numbers_ + 2; }
  double* alpha() const { return numbers_ + 3; }
  double* beta() const { return numbers_ + 4; }

  Device& device_;
  Slab slab_;
  Exchange& exchange_;
  Array b_, x_, r_, p_, q_;
  double* numbers_;
};

}  // namespace poisson
