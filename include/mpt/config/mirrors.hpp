// mirrors: where what a configuration names by its place on the Hugging Face hub lies on this
// machine. Nothing is downloaded, and what was published under mosaicml/ is no longer there.
//
//   mirrors: {mosaicml/mpt-7b: /models/mpt-7b, mosaicml/dolly_hhrlhf: /data/dolly}
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <mpt/config/node.hpp>
#include <mpt/config/reader.hpp>

namespace mpt {

/// Names on the hub and the local paths that stand in for them.
using hub_mirrors = std::map<std::string, std::string>;

/// Reads our own top-level key `mirrors`.
[[nodiscard]] hub_mirrors read_mirrors(config_reader& parent);

/// Says which mirrors stand for a name that nothing in the document has.
void report_unused_mirrors(config_reader& parent, config_node const& document,
                           hub_mirrors const& mirrors);

/// The path of `name`: that of its mirror, else itself.
[[nodiscard]] std::string mirrored_path(hub_mirrors const& mirrors, std::string const& name);

/// What to do about a name that is no path on this machine: for the end of a message. `key`: what
/// else may be set to a path.
[[nodiscard]] std::string mirror_advice(std::string_view key, std::string_view name);

}  // namespace mpt
