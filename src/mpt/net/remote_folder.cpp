#include <mpt/net/remote_folder.hpp>

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace mpt::net {
namespace {

constexpr std::string_view s3_scheme = "s3://";

/// Whether a bucket's name can be a part of a host's name.
[[nodiscard]] bool is_host_part(std::string_view bucket) {
  return bucket.size() >= 3 && bucket.size() <= 63 && std::ranges::all_of(bucket, [](char letter) {
           return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') ||
                  letter == '-';
         });
}

/// The code in the answer of an object store: "<Code>NoSuchKey</Code>"; empty if there is none.
[[nodiscard]] std::string error_code(std::string_view body) {
  auto const begin = body.find("<Code>");
  if (begin == body.npos) return {};
  std::string out;
  for (char const letter : body.substr(begin + 6, 64)) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) break;
    out += letter;
  }
  return out;
}

}  // namespace

bool is_downloadable(std::string_view address) {
  return is_http_url(address) || address.starts_with(s3_scheme);
}

remote_folder::remote_folder(std::string_view address, object_store const& store) : store_(store) {
  while (address.ends_with('/')) address.remove_suffix(1);
  if (!address.starts_with(s3_scheme)) {
    base_ = parse_url(address);
    while (base_.path.ends_with('/')) base_.path.pop_back();
    displayed_ = base_.displayed();
    parallel::require(base_.query.empty(), displayed_,
                      ": a folder's address has no '?'; what follows may be a key, and settings "
                      "are logged");
    return;
  }
  is_object_store_ = true;
  auto const bucket_end = std::min(address.find('/', s3_scheme.size()), address.size());
  parallel::require(
      address.substr(0, bucket_end).find('@') == address.npos && address.find('?') == address.npos,
      "an address in an object store has no '@' in its bucket and no '?'; expected "
      "s3://BUCKET/PREFIX; keys come from AWS_ACCESS_KEY_ID and "
      "AWS_SECRET_ACCESS_KEY, since settings are logged");
  displayed_ = address;
  address.remove_prefix(s3_scheme.size());
  auto const slash = std::min(address.find('/'), address.size());
  auto const bucket = address.substr(0, slash);
  parallel::require(!bucket.empty(), displayed_, ": names no bucket; expected s3://BUCKET/PREFIX");
  auto const prefix = percent_encoded(address.substr(slash), true);
  if (!store.endpoint.empty()) {
    base_ = parse_url(store.endpoint);
    while (base_.path.ends_with('/')) base_.path.pop_back();
    base_.path += "/" + percent_encoded(bucket) + prefix;
  } else if (is_host_part(bucket)) {
    base_ = parse_url(fmt::format("https://{}.s3.{}.amazonaws.com", bucket, store.region));
    base_.path = prefix;
  } else {
    base_ = parse_url(fmt::format("https://s3.{}.amazonaws.com", store.region));
    base_.path = "/" + percent_encoded(bucket) + prefix;
  }
}

remote_folder remote_folder::subfolder(std::string_view name) const {
  auto out = *this;
  if (name.empty()) return out;
  out.base_.path += "/" + percent_encoded(name, true);
  out.displayed_ += "/" + std::string(name);
  return out;
}

std::string remote_folder::identity() const {
  if (!is_object_store_ || store_.endpoint.empty()) return displayed_;
  return displayed_ + " of " + parse_url(store_.endpoint).displayed();
}

http_request remote_folder::request(std::string_view name) const {
  auto address = base_;
  address.path += "/" + percent_encoded(name, true);
  http_request out;
  out.url = address.text();
  if (is_object_store_) out.signing_key = store_.key;
  return out;
}

std::string remote_folder::explanation(http_response const& response) const {
  auto const code = error_code(response.body);
  auto out = fmt::format("the server answers {}{}", describe_status(response.status),
                         code.empty() ? "" : " (" + code + ")");
  auto const key = store_.key ? "the key of " + store_.key_source + " was sent"
                              : std::string(
                                    "no key was sent: set AWS_ACCESS_KEY_ID and "
                                    "AWS_SECRET_ACCESS_KEY");
  if (auto const region = response.header("x-amz-bucket-region").value_or("");
      is_object_store_ && region != store_.region && !region.empty() && response.status >= 300 &&
      response.status <= 403)
    return out + "; the bucket is in another region: set AWS_REGION to " + region;
  if (code == "RequestTimeTooSkewed") return out + "; set this machine's clock";
  if (code == "SignatureDoesNotMatch")
    return out + "; " + key + ": check its secret, and AWS_REGION (" + store_.region + ")";
  if (code == "ExpiredToken") return out + "; " + key + ", and has expired: get a new one";
  if (!is_object_store_ && (response.status == 401 || response.status == 403))
    return out + ". A web server must give these files without a login; none is sent";
  if (response.status == 401 || response.status == 403)
    return out + "; " + key + ". Check that " +
           (store_.key ? "this key may read from the bucket" : "the bucket is public") +
           ", and the names: a store that may not be listed answers like this for files that do "
           "not exist, too";
  if (response.status == 404)
    return out + "; check " + (is_object_store_ ? "bucket, prefix" : "the address") +
           " and split: index.json must be there with the shards";
  if (response.status >= 300 && response.status < 400)
    return out + " without saying where to; check the address" +
           (is_object_store_ ? " and AWS_REGION (" + store_.region + ")" : "");
  return out +
         (is_temporary(response.status) ? "; it was asked several times: try again later" : "");
}

}  // namespace mpt::net
