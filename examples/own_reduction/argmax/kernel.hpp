// The kernel of oneshot_ll for candidates. plait_add_kernels compiles it for every target.
#pragma once
#include "algorithms/all_reduce/oneshot_ll/kernel.hpp"
#include "argmax/candidate.hpp"
#include "backends/device/own_reducer.hpp"

template <>
struct plait::DataTypeOf<Candidate> {
  static constexpr DataType value = DataType::u64;  // a candidate travels as one of these
};

template <>
class plait::Reducer<Candidate> : public plait::OwnReducer<Candidate, Better> {
  using OwnReducer::OwnReducer;
};

namespace plait::argmax {

using Types = TypeList<Candidate>;
using oneshot_ll::Args;
using oneshot_ll::Kernel;

}  // namespace plait::argmax
