// Checksums of shard files, under the names mosaicml-streaming gives them in index.json.
//
// Known here: the xxHash family (Collet) and SHA-1 and SHA-256 (FIPS 180-4). Others that Python's
// hashlib offers (md5, blake2b, ...) may stand in an index; readers list them as not verified.
// Digests are lower-case hexadecimal, most significant byte first.
#pragma once

#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace mpt::data {

/// Whether `hash_of` knows `algorithm`.
[[nodiscard]] bool is_known_hash(std::string_view algorithm);

/// Of the shards that `prepare` writes: one of streaming's names, and as fast as memory.
inline constexpr std::string_view prepared_hash = "xxh3_64";

/// Hexadecimal digest of `bytes`; throws for an algorithm not known here.
[[nodiscard]] std::string hash_of(std::string_view algorithm, std::string_view bytes);

}  // namespace mpt::data
