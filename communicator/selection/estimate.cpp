// Estimates, and by what they are corrected on machines that the formulas were not made for.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>

#include "communicator/selection/selection.hpp"

namespace plait {
namespace {

/// The formulas count how often a message crosses the links. CPU ranks, and ranks that share a GPU,
/// have none: each pass over the data costs them memory traffic and instructions, and these differ
/// by algorithm. So the tables below correct the formulas there.
struct Corrected {
  Collective collective;
  std::string_view algorithm;
  EstimateFactors factors;
};

// Printed by tools/fit_model.py --factors, which says from which results (docs/tuning.md).

// CPU ranks with a processor each: host-2-ranks-choice.json.
constexpr Corrected on_own_processors[] = {
    {Collective::all_gather, "direct_copy", {0.66, 0.40}},
    {Collective::all_gather, "direct_ll", {1.25, 0.86}},
    {Collective::all_gather, "direct_ll128", {1.09, 0.70}},
    {Collective::all_gather, "direct_push", {0.83, 0.98}},
    {Collective::all_gather, "direct_put", {0.96, 0.18}},
    {Collective::all_gather, "pull", {1.00, 0.64}},
    {Collective::all_reduce, "copy_engine", {1.37, 1.43}},
    {Collective::all_reduce, "flash", {0.59, 2.06}},
    {Collective::all_reduce, "halving_doubling", {1.45, 0.87}},
    {Collective::all_reduce, "oneshot_ll", {0.67, 1.31}},
    {Collective::all_reduce, "oneshot_ll128", {0.96, 1.18}},
    {Collective::all_reduce, "pull", {0.95, 1.22}},
    {Collective::all_reduce, "recursive_doubling", {0.72, 1.72}},
    {Collective::all_reduce, "ring", {0.96, 3.07}},
    {Collective::all_reduce, "stream", {1.44, 1.38}},
    {Collective::all_reduce, "tree", {2.17, 0.46}},
    {Collective::all_reduce, "twoshot", {1.00, 0.47}},
    {Collective::all_reduce, "twoshot_ll", {0.63, 1.65}},
    {Collective::all_reduce, "twoshot_ll128", {0.75, 1.08}},
    {Collective::all_to_all, "direct_copy", {0.60, 0.65}},
    {Collective::all_to_all, "direct_ll", {1.08, 0.93}},
    {Collective::all_to_all, "direct_ll128", {1.30, 0.79}},
    {Collective::all_to_all, "direct_push", {0.69, 1.12}},
    {Collective::all_to_all, "direct_put", {0.93, 0.27}},
    {Collective::all_to_all, "pull", {0.98, 0.62}},
    {Collective::broadcast, "chain", {1.31, 0.65}},
    {Collective::broadcast, "direct_copy", {0.61, 0.40}},
    {Collective::broadcast, "direct_ll", {0.71, 0.56}},
    {Collective::broadcast, "direct_ll128", {0.65, 0.45}},
    {Collective::broadcast, "direct_push", {0.64, 0.60}},
    {Collective::broadcast, "direct_put", {0.96, 0.17}},
    {Collective::broadcast, "pull", {0.76, 0.36}},
    {Collective::broadcast, "relay_ll128", {0.46, 0.71}},
    {Collective::gather, "direct_copy", {0.58, 0.44}},
    {Collective::gather, "direct_ll", {0.81, 0.72}},
    {Collective::gather, "direct_ll128", {0.66, 0.63}},
    {Collective::gather, "direct_push", {0.58, 0.64}},
    {Collective::gather, "direct_put", {0.95, 0.73}},
    {Collective::gather, "pull", {0.82, 0.53}},
    {Collective::reduce, "chain", {1.50, 0.57}},
    {Collective::reduce, "direct_ll", {0.51, 0.91}},
    {Collective::reduce, "direct_ll128", {0.59, 0.61}},
    {Collective::reduce, "direct_pull", {0.87, 0.83}},
    {Collective::reduce, "direct_push", {0.78, 0.63}},
    {Collective::reduce, "pull", {0.78, 0.66}},
    {Collective::reduce, "relay_ll128", {0.48, 0.95}},
    {Collective::reduce_scatter, "direct_ll", {1.25, 1.01}},
    {Collective::reduce_scatter, "direct_ll128", {1.39, 0.75}},
    {Collective::reduce_scatter, "direct_pull", {0.99, 0.78}},
    {Collective::reduce_scatter, "direct_push", {0.68, 1.82}},
    {Collective::reduce_scatter, "pull", {1.00, 0.76}},
    {Collective::scatter, "direct_copy", {0.60, 0.41}},
    {Collective::scatter, "direct_ll", {0.71, 0.56}},
    {Collective::scatter, "direct_ll128", {0.61, 0.46}},
    {Collective::scatter, "direct_push", {0.50, 0.73}},
    {Collective::scatter, "direct_put", {0.94, 0.18}},
    {Collective::scatter, "pull", {0.82, 0.32}},
    {Collective::send_recv, "pairwise_copy", {1.40, 0.28}},
    {Collective::send_recv, "pairwise_ll", {3.13, 0.92}},
    {Collective::send_recv, "pairwise_ll128", {3.16, 0.55}},
    {Collective::send_recv, "pairwise_pull", {1.14, 0.40}},
    {Collective::send_recv, "pairwise_push", {1.05, 0.76}},
    {Collective::send_recv, "pairwise_put", {1.65, 0.18}},
};

// CPU ranks that take turns on processors: host-[348]-ranks-choice.json.
constexpr Corrected in_turns[] = {
    {Collective::all_gather, "direct_copy", {1.50, 0.69}},
    {Collective::all_gather, "direct_ll", {3.38, 1.55}},
    {Collective::all_gather, "direct_ll128", {4.37, 0.56}},
    {Collective::all_gather, "direct_push", {2.78, 0.87}},
    {Collective::all_gather, "direct_put", {2.77, 0.28}},
    {Collective::all_gather, "pull", {2.32, 1.15}},
    {Collective::all_reduce, "copy_engine", {4.01, 1.28}},
    {Collective::all_reduce, "flash", {3.53, 1.29}},
    {Collective::all_reduce, "halving_doubling", {3.06, 0.87}},
    {Collective::all_reduce, "oneshot_ll", {8.59, 1.58}},
    {Collective::all_reduce, "oneshot_ll128", {4.87, 0.84}},
    {Collective::all_reduce, "pull", {2.48, 1.61}},
    {Collective::all_reduce, "recursive_doubling", {6.00, 2.30}},
    {Collective::all_reduce, "ring", {1.89, 4.17}},
    {Collective::all_reduce, "stream", {7.17, 0.93}},
    {Collective::all_reduce, "tree", {3.69, 0.85}},
    {Collective::all_reduce, "twoshot", {3.21, 0.91}},
    {Collective::all_reduce, "twoshot_ll", {6.51, 1.65}},
    {Collective::all_reduce, "twoshot_ll128", {6.01, 0.67}},
    {Collective::all_to_all, "direct_copy", {1.53, 1.20}},
    {Collective::all_to_all, "direct_ll", {3.73, 1.77}},
    {Collective::all_to_all, "direct_ll128", {4.29, 0.88}},
    {Collective::all_to_all, "direct_push", {3.00, 0.99}},
    {Collective::all_to_all, "direct_put", {2.92, 0.46}},
    {Collective::all_to_all, "pull", {2.38, 1.39}},
    {Collective::broadcast, "chain", {2.76, 0.72}},
    {Collective::broadcast, "direct_copy", {1.38, 0.22}},
    {Collective::broadcast, "direct_ll", {1.61, 0.66}},
    {Collective::broadcast, "direct_ll128", {2.02, 0.19}},
    {Collective::broadcast, "direct_push", {1.84, 0.28}},
    {Collective::broadcast, "direct_put", {2.84, 0.12}},
    {Collective::broadcast, "pull", {1.59, 0.28}},
    {Collective::broadcast, "relay_ll128", {1.93, 0.49}},
    {Collective::gather, "direct_copy", {1.40, 0.30}},
    {Collective::gather, "direct_ll", {1.83, 0.76}},
    {Collective::gather, "direct_ll128", {2.14, 0.29}},
    {Collective::gather, "direct_push", {1.26, 0.31}},
    {Collective::gather, "direct_put", {3.18, 0.45}},
    {Collective::gather, "pull", {1.65, 0.36}},
    {Collective::reduce, "chain", {2.82, 0.83}},
    {Collective::reduce, "direct_ll", {1.19, 0.65}},
    {Collective::reduce, "direct_ll128", {1.86, 0.37}},
    {Collective::reduce, "direct_pull", {2.97, 0.32}},
    {Collective::reduce, "direct_push", {2.00, 0.31}},
    {Collective::reduce, "pull", {1.47, 0.52}},
    {Collective::reduce, "relay_ll128", {1.93, 0.78}},
    {Collective::reduce_scatter, "direct_ll", {5.41, 1.55}},
    {Collective::reduce_scatter, "direct_ll128", {4.42, 1.02}},
    {Collective::reduce_scatter, "direct_pull", {2.91, 1.09}},
    {Collective::reduce_scatter, "direct_push", {3.07, 0.97}},
    {Collective::reduce_scatter, "pull", {2.35, 1.65}},
    {Collective::scatter, "direct_copy", {1.94, 0.26}},
    {Collective::scatter, "direct_ll", {2.04, 0.79}},
    {Collective::scatter, "direct_ll128", {3.93, 0.34}},
    {Collective::scatter, "direct_push", {2.40, 0.27}},
    {Collective::scatter, "direct_put", {3.48, 0.10}},
    {Collective::scatter, "pull", {1.74, 0.24}},
    {Collective::send_recv, "pairwise_copy", {5.33, 0.98}},
    {Collective::send_recv, "pairwise_ll", {13.25, 1.97}},
    {Collective::send_recv, "pairwise_ll128", {13.10, 0.78}},
    {Collective::send_recv, "pairwise_pull", {3.50, 1.09}},
    {Collective::send_recv, "pairwise_push", {4.17, 0.75}},
    {Collective::send_recv, "pairwise_put", {5.32, 0.40}},
};

// Two ranks on one GPU: h100-1-2-ranks-choice.json.
constexpr Corrected two_on_a_gpu[] = {
    {Collective::all_gather, "direct_copy", {0.55, 0.87}},
    {Collective::all_gather, "direct_ll", {0.78, 1.04}},
    {Collective::all_gather, "direct_push", {0.98, 1.17}},
    {Collective::all_gather, "direct_put", {0.76, 1.05}},
    {Collective::all_reduce, "copy_engine", {0.75, 0.74}},
    {Collective::all_reduce, "flash", {0.91, 0.94}},
    {Collective::all_reduce, "halving_doubling", {1.32, 1.40}},
    {Collective::all_reduce, "oneshot_ll", {0.80, 0.98}},
    {Collective::all_reduce, "oneshot_sentinel", {0.72, 1.27}},
    {Collective::all_reduce, "recursive_doubling", {1.31, 2.42}},
    {Collective::all_reduce, "ring", {1.17, 1.45}},
    {Collective::all_reduce, "stream", {1.24, 1.54}},
    {Collective::all_reduce, "tree", {1.07, 0.53}},
    {Collective::all_reduce, "twoshot", {0.89, 0.81}},
    {Collective::all_reduce, "twoshot_ll", {0.78, 0.90}},
    {Collective::all_reduce, "twoshot_sentinel", {0.63, 1.50}},
    {Collective::all_to_all, "direct_copy", {0.53, 1.23}},
    {Collective::all_to_all, "direct_ll", {0.76, 1.05}},
    {Collective::all_to_all, "direct_push", {0.99, 1.35}},
    {Collective::all_to_all, "direct_put", {0.78, 1.34}},
    {Collective::broadcast, "chain", {1.31, 0.68}},
    {Collective::broadcast, "direct_copy", {0.63, 0.63}},
    {Collective::broadcast, "direct_ll", {0.73, 1.02}},
    {Collective::broadcast, "direct_push", {0.95, 0.55}},
    {Collective::broadcast, "direct_put", {1.02, 0.68}},
    {Collective::gather, "direct_copy", {0.53, 0.71}},
    {Collective::gather, "direct_ll", {0.71, 1.12}},
    {Collective::gather, "direct_push", {0.76, 0.62}},
    {Collective::gather, "direct_put", {0.75, 0.89}},
    {Collective::reduce, "chain", {1.00, 0.58}},
    {Collective::reduce, "direct_ll", {0.73, 1.09}},
    {Collective::reduce, "direct_pull", {0.81, 0.75}},
    {Collective::reduce, "direct_push", {0.76, 0.86}},
    {Collective::reduce_scatter, "direct_ll", {0.79, 1.36}},
    {Collective::reduce_scatter, "direct_pull", {0.82, 1.16}},
    {Collective::reduce_scatter, "direct_push", {1.01, 1.43}},
    {Collective::reduce_scatter, "direct_sentinel", {0.79, 1.80}},
    {Collective::scatter, "direct_copy", {0.53, 0.71}},
    {Collective::scatter, "direct_ll", {0.69, 1.01}},
    {Collective::scatter, "direct_push", {0.77, 0.61}},
    {Collective::scatter, "direct_put", {0.76, 0.66}},
    {Collective::send_recv, "pairwise_copy", {0.68, 0.65}},
    {Collective::send_recv, "pairwise_ll", {0.91, 1.44}},
    {Collective::send_recv, "pairwise_push", {0.54, 1.19}},
    {Collective::send_recv, "pairwise_put", {0.75, 0.67}},
};

// Three or more ranks on one GPU: h100-1-[348]-ranks-choice.json.
constexpr Corrected more_on_a_gpu[] = {
    {Collective::all_gather, "direct_copy", {0.68, 0.75}},
    {Collective::all_gather, "direct_ll", {1.30, 0.95}},
    {Collective::all_gather, "direct_push", {1.58, 0.85}},
    {Collective::all_gather, "direct_put", {1.30, 0.56}},
    {Collective::all_reduce, "copy_engine", {0.74, 0.70}},
    {Collective::all_reduce, "flash", {1.86, 0.48}},
    {Collective::all_reduce, "halving_doubling", {2.09, 1.31}},
    {Collective::all_reduce, "oneshot_ll", {1.09, 0.54}},
    {Collective::all_reduce, "oneshot_sentinel", {1.17, 0.82}},
    {Collective::all_reduce, "recursive_doubling", {1.24, 2.18}},
    {Collective::all_reduce, "ring", {1.57, 1.29}},
    {Collective::all_reduce, "stream", {1.90, 1.25}},
    {Collective::all_reduce, "tree", {1.32, 0.96}},
    {Collective::all_reduce, "twoshot", {1.46, 0.58}},
    {Collective::all_reduce, "twoshot_ll", {1.23, 0.64}},
    {Collective::all_reduce, "twoshot_sentinel", {1.11, 1.46}},
    {Collective::all_to_all, "direct_copy", {0.72, 0.86}},
    {Collective::all_to_all, "direct_ll", {1.35, 1.16}},
    {Collective::all_to_all, "direct_push", {1.67, 1.06}},
    {Collective::all_to_all, "direct_put", {1.37, 0.70}},
    {Collective::broadcast, "chain", {0.85, 0.69}},
    {Collective::broadcast, "direct_copy", {0.67, 0.27}},
    {Collective::broadcast, "direct_ll", {1.07, 0.57}},
    {Collective::broadcast, "direct_push", {1.19, 0.32}},
    {Collective::broadcast, "direct_put", {1.16, 0.31}},
    {Collective::gather, "direct_copy", {0.66, 0.29}},
    {Collective::gather, "direct_ll", {1.14, 0.78}},
    {Collective::gather, "direct_push", {1.18, 0.18}},
    {Collective::gather, "direct_put", {1.32, 0.46}},
    {Collective::reduce, "chain", {0.98, 0.65}},
    {Collective::reduce, "direct_ll", {0.97, 0.51}},
    {Collective::reduce, "direct_pull", {1.35, 0.70}},
    {Collective::reduce, "direct_push", {1.24, 0.43}},
    {Collective::reduce_scatter, "direct_ll", {1.16, 0.82}},
    {Collective::reduce_scatter, "direct_pull", {1.45, 0.88}},
    {Collective::reduce_scatter, "direct_push", {1.67, 1.13}},
    {Collective::reduce_scatter, "direct_sentinel", {1.20, 1.16}},
    {Collective::scatter, "direct_copy", {0.67, 0.28}},
    {Collective::scatter, "direct_ll", {1.16, 0.73}},
    {Collective::scatter, "direct_push", {1.25, 0.37}},
    {Collective::scatter, "direct_put", {1.35, 0.34}},
    {Collective::send_recv, "pairwise_copy", {1.08, 0.74}},
    {Collective::send_recv, "pairwise_ll", {1.12, 1.48}},
    {Collective::send_recv, "pairwise_push", {0.84, 1.29}},
    {Collective::send_recv, "pairwise_put", {1.20, 0.73}},
};

std::span<const Corrected> table_for(const Topology& topology) {
  if (topology.nodes > 1 || topology.ranks == 1) return {};
  const int sharing = topology.ranks_per_device;
  if (topology.backend == BackendKind::host)
    return sharing == 1 ? std::span<const Corrected>(on_own_processors) : in_turns;
  if (sharing == 1) return {};
  return sharing == 2 ? std::span<const Corrected>(two_on_a_gpu) : more_on_a_gpu;
}

}  // namespace

EstimateFactors Selector::factors(const Algorithm& algorithm, const Topology& topology) {
  const auto table = table_for(topology);
  const auto found = std::find_if(table.begin(), table.end(), [&](const Corrected& one) {
    return one.collective == algorithm.collective() && one.algorithm == algorithm.name();
  });
  return found == table.end() ? EstimateFactors{} : found->factors;
}

double Selector::estimate(const Algorithm& algorithm, const Call& call, const Topology& topology) {
  const double us = algorithm.estimate(call, topology);
  const EstimateFactors corrected = factors(algorithm, topology);
  if ((corrected.fixed == 1 && corrected.bytes == 1) || std::isinf(us)) return us;
  Topology unlimited = topology;
  unlimited.link_bandwidth = unlimited.push_bandwidth = unlimited.packet_bandwidth =
      unlimited.copy_bandwidth = std::numeric_limits<double>::infinity();
  const double fixed = algorithm.estimate(call, unlimited);
  return corrected.fixed * fixed + corrected.bytes * (us - fixed);
}

}  // namespace plait
