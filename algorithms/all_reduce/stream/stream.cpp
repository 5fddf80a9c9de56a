#include "algorithms/all_reduce/stream/descriptor.hpp"

namespace plait::stream {
namespace {

const AlgorithmRegistration<StreamAlgorithm> registration;

}  // namespace
}  // namespace plait::stream
