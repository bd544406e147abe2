#include "attributes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include "status.hpp"

namespace tidegate::arrowfs {

using ::arrow::Result;
using ::arrow::Status;

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kAttributes = {{
    {"cache-control", "cache_control"},
    {"content-disposition", "content_disposition"},
    {"content-encoding", "content_encoding"},
    {"content-language", "content_language"},
    {"content-type", "content_type"},
    {"expires", "expires"},
}};

std::string Lower(std::string_view text) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char each) { return std::tolower(each); });
    return lower;
}

}  // namespace

Result<Options> ToOptions(const Settings &settings) {
    return Try([&] {
        Options options;
        for (const auto &[name, value] : settings) options.set(name, value);
        return options;
    });
}

Result<Options> OfWrite(const Settings &settings, const ::arrow::KeyValueMetadata *metadata) {
    Settings all = settings;
    for (std::int64_t at = 0; metadata != nullptr && at < metadata->size(); ++at) {
        const std::string &name = metadata->key(at), &value = metadata->value(at);
        const std::string lower = Lower(name);
        if (lower == "acl")
            return Status::NotImplemented("ACLs of objects are not supported; give the bucket a policy");
        const auto known = std::find_if(
            kAttributes.begin(), kAttributes.end(), [&](const auto &attribute) { return attribute.first == lower; });
        if (known == kAttributes.end()) {
            all.emplace_back("metadata", name + "=" + value);
            continue;
        }
        std::erase_if(all, [&](const auto &setting) { return setting.first == known->second; });
        all.emplace_back(known->second, value);
    }
    return ToOptions(all);
}

Settings OfStorage(const Settings &settings) {
    Settings found;
    for (const auto &setting : settings)
        if (setting.first == "encryption" || setting.first == "storage_class") found.push_back(setting);
    return found;
}

}  // namespace tidegate::arrowfs
