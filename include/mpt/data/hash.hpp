// Checksums of shard files, under the names mosaicml-streaming gives them in index.json.
//
// Supported are the xxHash family (Collet) and SHA-1 and SHA-256 (FIPS 180-4). An index may name
// other algorithms of Python's hashlib (md5, blake2b, ...); readers list them as not verified.
// Digests are lower-case hexadecimal, most significant byte first.
#pragma once

#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace mpt::data {

/// Whether `hash_of` supports `algorithm`.
[[nodiscard]] bool is_known_hash(std::string_view algorithm);

/// The algorithm for shards that `prepare` writes: streaming knows it, and it is as fast as memory.
inline constexpr std::string_view prepared_hash = "xxh3_64";

/// The hexadecimal digest of `bytes`. Throws for an algorithm that is not supported.
[[nodiscard]] std::string hash_of(std::string_view algorithm, std::string_view bytes);

}  // namespace mpt::data
