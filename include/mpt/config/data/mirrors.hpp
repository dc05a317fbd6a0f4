// mirrors: local paths of models and data sets that a configuration names as on the Hugging Face
// hub. Nothing is downloaded; what was published under mosaicml/ is no longer on the hub.
//
//   mirrors: {mosaicml/mpt-7b: /models/mpt-7b, mosaicml/dolly_hhrlhf: /data/dolly}
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <mpt/yaml/node.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt {

/// Maps names on the hub to local paths.
using hub_mirrors = std::map<std::string, std::string>;

/// Reads our own top-level key `mirrors`.
[[nodiscard]] hub_mirrors read_mirrors(config_reader& parent);

/// Reports the mirrors whose name no value of the document has.
void report_unused_mirrors(config_reader& parent, config_node const& document,
                           hub_mirrors const& mirrors);

/// The local path of the mirror of `name`, or `name` itself where it has none.
[[nodiscard]] std::string mirrored_path(hub_mirrors const& mirrors, std::string const& name);

/// The end of a message about a name that is not a path on this machine: advice on how to give a
/// path. `key` is the key that may be set to one.
[[nodiscard]] std::string mirror_advice(std::string_view key, std::string_view name);

}  // namespace mpt
