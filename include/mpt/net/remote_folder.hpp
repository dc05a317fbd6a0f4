// remote_folder: a folder of files on a web server or in an object store.
#pragma once

#include <string>
#include <string_view>

#include <mpt/net/http.hpp>
#include <mpt/net/object_store.hpp>
#include <mpt/net/url.hpp>

namespace mpt::net {

class remote_folder {
 public:
  /// `address`: http://..., https://... or s3://BUCKET/PREFIX, which is looked for in `store`.
  /// Throws where it has a query or, for an object store, a user: these may hold a key, which
  /// settings must not.
  remote_folder(std::string_view address, object_store const& store);

  /// The folder's subfolder `name`.
  [[nodiscard]] remote_folder subfolder(std::string_view name) const;

  /// The request for the file `name`, a relative path.
  [[nodiscard]] http_request request(std::string_view name) const;

  /// The address for messages.
  [[nodiscard]] std::string const& displayed() const { return displayed_; }

  /// The address, of an object store with the store's own: two folders with the same have the same
  /// files.
  [[nodiscard]] std::string identity() const;

  /// The meaning of a response that is not a success, and what to check.
  [[nodiscard]] std::string explanation(http_response const& response) const;

 private:
  url base_;
  std::string displayed_;
  object_store store_;
  bool is_object_store_ = false;
};

/// Whether remote_folder takes addresses with the scheme of `address`.
[[nodiscard]] bool is_downloadable(std::string_view address);

}  // namespace mpt::net
