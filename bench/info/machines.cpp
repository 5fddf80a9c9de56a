#include "bench/info/machines.hpp"

namespace plait::info {

Topology gpus(int ranks) {
  Topology topology;
  topology.backend = BackendKind::cuda;
  topology.architecture = "sm_90";
  topology.ranks = ranks;
  topology.scratch_limit = std::size_t{128} << 20;
  topology.units = 132;
  topology.block_threads = topology.max_block_threads = 512;
  topology.peer_access = topology.indexed_arguments = true;
  topology.line_threads = 8;
  topology.launch_us = 1.0;
  topology.hop_us = 1.2;
  topology.signal_us = 3.8;
  topology.link_bandwidth = 337e3;
  topology.push_bandwidth = 361e3;
  topology.packet_bandwidth = 283e3;
  topology.copy_us = 7.5;
  topology.copy_bandwidth = 362e3;
  return topology;
}

Topology cpus(int ranks) {
  Topology topology;
  topology.architecture = "x86_64";
  topology.ranks = ranks;
  topology.scratch_limit = std::size_t{128} << 20;
  topology.max_block_threads = 64;
  topology.indexed_arguments = topology.peer_reads = true;
  topology.line_threads = 1;
  return topology;
}

}  // namespace plait::info
