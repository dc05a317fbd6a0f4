// write_cluster: a cluster as the text of a file that read_cluster reads.
#pragma once

#include <string>

#include <parallel/cluster/cluster.hpp>

namespace mpt {

/// The YAML text of a cluster, in the form of clusters.yaml. Costs of a program are not part of it.
[[nodiscard]] std::string cluster_text(parallel::cluster::cluster const& machines);

namespace detail {

/// The lines of a description on disks and failures.
[[nodiscard]] std::string storage_text(parallel::cluster::storage const& disks,
                                       parallel::cluster::failures const& failures);

}  // namespace detail

}  // namespace mpt
