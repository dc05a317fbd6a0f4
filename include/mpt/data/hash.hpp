// Checksums of shard files, under the names mosaicml-streaming gives them in index.json.
//
// Supported are the xxHash family (Collet) and SHA-1 and SHA-256 (FIPS 180-4). An index may name
// other algorithms of Python's hashlib (md5, blake2b, ...); readers list them as not verified.
// Digests are lower-case hexadecimal, most significant byte first.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace mpt::data {

/// Whether `hash_of` supports `algorithm`.
[[nodiscard]] bool is_known_hash(std::string_view algorithm);

/// The algorithm for shards that `prepare` writes: streaming knows it, and it is as fast as memory.
inline constexpr std::string_view prepared_hash = "xxh3_64";

/// The hexadecimal digest of `bytes`. Throws for an algorithm that is not supported.
[[nodiscard]] std::string hash_of(std::string_view algorithm, std::string_view bytes);

/// Whether any of the digests, by algorithm, is of one that `hash_of` supports.
[[nodiscard]] bool has_known_hash(std::map<std::string, std::string> const& digests);

/// The first of the digests of index.json, by algorithm, that `bytes` do not have, as a clause;
/// empty if there is none. Those of other algorithms are left out.
[[nodiscard]] std::string hash_difference(std::map<std::string, std::string> const& digests,
                                          std::string_view bytes);

}  // namespace mpt::data
