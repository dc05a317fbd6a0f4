#include <mpt/data/hash.hpp>

#include <algorithm>

#include <xxhash.h>

#include <mpt/digest.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace mpt::data {

bool is_known_hash(std::string_view algorithm) {
  for (std::string_view const known :
       {"xxh32", "xxh64", "xxh3_64", "xxh128", "xxh3_128", "sha1", "sha256"})
    if (algorithm == known) return true;
  return false;
}

std::string hash_of(std::string_view algorithm, std::string_view bytes) {
  using parallel::hexadecimal;
  if (algorithm == "xxh32") return hexadecimal(XXH32(bytes.data(), bytes.size(), 0));
  if (algorithm == "xxh64") return hexadecimal(XXH64(bytes.data(), bytes.size(), 0));
  if (algorithm == "xxh3_64") return hexadecimal(XXH3_64bits(bytes.data(), bytes.size()));
  if (algorithm == "xxh128" || algorithm == "xxh3_128") {
    auto const value = XXH3_128bits(bytes.data(), bytes.size());
    return hexadecimal(value.high64) + hexadecimal(value.low64);
  }
  if (algorithm == "sha1") return digest_of(digest_kind::sha1, bytes);
  if (algorithm == "sha256") return digest_of(digest_kind::sha256, bytes);
  parallel::fail("hash '", algorithm,
                 "' is not known here; choose among xxh32, xxh64, xxh3_64, xxh128, sha1, sha256");
}

bool has_known_hash(std::map<std::string, std::string> const& digests) {
  return std::ranges::any_of(digests, [](auto const& entry) { return is_known_hash(entry.first); });
}

std::string hash_difference(std::map<std::string, std::string> const& digests,
                            std::string_view bytes) {
  for (auto const& [algorithm, digest] : digests)
    if (is_known_hash(algorithm))
      if (auto const found = hash_of(algorithm, bytes); found != digest)
        return parallel::concat(algorithm, " is ", found, ", index.json says ", digest);
  return {};
}

}  // namespace mpt::data
