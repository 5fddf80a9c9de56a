// The problem, -Laplace u = f on the unit cube with u = 0 on its faces, and one rank's part of its
// grid.
#pragma once
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace poisson {

/// A mistake of the caller, the same on all ranks.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Where, in a field, the layer begins that this rank sends to `rank`, and the layer that it
/// receives from there.
struct Neighbour {
  int rank;
  std::size_t send, receive;
};

/// The z layers of one rank, among `n`^3 interior points. Slabs differ by at most one layer. A
/// field on a slab is an array with one more point on every side: the faces of the cube, which stay
/// 0, and towards each neighbour a copy of its nearest layer. Points count from 1; x varies
/// fastest.
class Slab {
 public:
  Slab(int points, int rank, int ranks) : n(points), rank_(rank), ranks_(ranks) {
    if (ranks > points)
      throw UsageError(std::to_string(ranks) + " ranks, but only " + std::to_string(points) +
                       " layers: a rank needs at least one");
    first = first_of(rank);
    layers = first_of(rank + 1) - first;
  }

  /// Points from one y to the next.
  std::size_t row() const { return static_cast<std::size_t>(n) + 2; }
  /// Points from one z to the next.
  std::size_t layer() const { return row() * row(); }
  std::size_t points() const { return layer() * (static_cast<std::size_t>(layers) + 2); }
  std::size_t index(int x, int y, int z) const {
    return static_cast<std::size_t>(z) * layer() + static_cast<std::size_t>(y) * row() +
           static_cast<std::size_t>(x);
  }

  std::vector<Neighbour> neighbours() const {
    std::vector<Neighbour> all;
    if (rank_ > 0) all.push_back({rank_ - 1, index(0, 0, 1), index(0, 0, 0)});
    if (rank_ + 1 < ranks_)
      all.push_back({rank_ + 1, index(0, 0, layers), index(0, 0, layers + 1)});
    return all;
  }

  int n;           ///< interior points in each direction of the whole cube
  int layers = 0;  ///< layers of this rank
  int first = 0;   ///< layers of the ranks before this one

 private:
  int first_of(int rank) const {
    return static_cast<int>(static_cast<long long>(n) * rank / ranks_);
  }

  int rank_, ranks_;
};

/// The exact solution is q(x) q(y) q(z), with this q. The 7-point stencil is exact for quadratics,
/// so the discrete solution is the same.
inline double quadratic(double t) { return t * (1 - t); }

/// Calls `visit(index, x, y, z)` with the coordinates of every point of the slab.
template <class Visit>
void for_each_point(const Slab& slab, const Visit& visit) {
  const double h = 1.0 / (slab.n + 1);
  for (int z = 1; z <= slab.layers; ++z)
    for (int y = 1; y <= slab.n; ++y)
      for (int x = 1; x <= slab.n; ++x)
        visit(slab.index(x, y, z), x * h, y * h, (slab.first + z) * h);
}

/// h^2 f: the right-hand side for the stencil 6 u - (sum of the 6 neighbours).
inline std::vector<double> right_hand_side(const Slab& slab) {
  const double h = 1.0 / (slab.n + 1);
  std::vector<double> b(slab.points());
  for_each_point(slab, [&](std::size_t i, double x, double y, double z) {
    const double qx = quadratic(x), qy = quadratic(y), qz = quadratic(z);
    b[i] = 2 * h * h * (qy * qz + qx * qz + qx * qy);
  });
  return b;
}

/// The largest difference from the exact solution in this slab; NaN if `u` has a NaN.
inline double max_error(const Slab& slab, const std::vector<double>& u) {
  double worst = 0;
  for_each_point(slab, [&](std::size_t i, double x, double y, double z) {
    const double error = std::abs(u[i] - quadratic(x) * quadratic(y) * quadratic(z));
    if (!(error <= worst)) worst = error;
  });
  return worst;
}

}  // namespace poisson
