#include "communicator/calibration/plan.hpp"

#include "algorithms/contract/collectives.hpp"

namespace plait {

std::vector<MeasuredKind> kinds_of(const MeasuringPlan& plan, const Topology& topology) {
  const bool host = topology.backend == BackendKind::host;
  std::vector<Collective> collectives = plan.collectives;
  if (collectives.empty())
    for (int c = 0; c < collective_count; ++c) collectives.push_back(static_cast<Collective>(c));
  std::vector<DataType> types = plan.types;
  if (types.empty()) types.push_back(host ? DataType::f32 : DataType::bf16);
  std::vector<MeasuredKind> kinds;
  const auto add = [&](Collective collective, DataType type, bool symmetric) {
    Call call{.collective = collective,
              .type = type,
              .symmetric = symmetric,
              .parts = parts_of(collective, topology.ranks)};
    if (!has_in_place(collective)) {
      kinds.push_back({call, {false}});
    } else if (!symmetric || facts_of(collective).rooted) {
      kinds.push_back({call, {false, true}});
    } else {
      kinds.push_back({call, {false}});
      call.in_place = true;
      kinds.push_back({call, {true}});
    }
  };
  for (const Collective collective : collectives)
    for (const DataType type : types)
      for (const bool symmetric : {false, true})
        if (collective != Collective::barrier && (symmetric ? plan.symmetric : plan.ordinary))
          add(collective, type, symmetric);
  return kinds;
}

MeasuringPlan MeasuringPlan::of_calibration(BackendKind backend) {
  const bool host = backend == BackendKind::host;
  MeasuringPlan plan;
  for (std::size_t bytes = host ? 128 : 512; bytes <= (host ? 2u << 20 : 32u << 20); bytes *= 4)
    plan.sizes.push_back(bytes);
  plan.limit_us = measuring_limit_us;
  return plan;
}

}  // namespace plait
