// read_cluster: the cluster that a user names, from the table of known devices (clusters.yaml) or a
// file in its form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <mpt/yaml/reader.hpp>
#include <parallel/cluster/cluster.hpp>

namespace mpt {

/// The cluster of a text: "h100x8x64", 64 nodes of 8 known devices; "h100x8" and "h100", one node;
/// or "my.yaml", a file, and "my.yaml:64", with so many nodes. Throws `error` that lists what is
/// known. `rate`: the bytes a second that a node sends to others, 0: the description's.
[[nodiscard]] parallel::cluster::cluster read_cluster(std::string const& text, double rate = 0);

/// The document of the known clusters, for many calls of read_cluster.
[[nodiscard]] config_node parse_known_clusters();
/// Likewise, with names looked up in `known`.
[[nodiscard]] parallel::cluster::cluster read_cluster(std::string const& text, double rate,
                                                      config_node const& known);

/// Reads one description: the keys `device` and `node` as in clusters.yaml.
[[nodiscard]] parallel::cluster::cluster read_cluster(config_reader reader, std::string name);

/// The description of a known device as a file to change. Throws `error` that lists what is known.
[[nodiscard]] std::string cluster_file(std::string_view name);

/// The bytes a second of "400Gb/s", "50GB/s" or "1.2e9". Throws `error` for anything else.
[[nodiscard]] double parse_rate(std::string_view text);

/// The known device that a driver's name of a GPU means, such as "NVIDIA H100 80GB HBM3"; "" if
/// there is none.
[[nodiscard]] std::string known_device_in(std::string_view text);

namespace detail {

/// The text of clusters.yaml.
extern std::string_view const known_clusters;

}  // namespace detail

}  // namespace mpt
