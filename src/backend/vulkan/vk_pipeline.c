/* vk_pipeline.c - backend/vulkan/vk_pipeline.h. */
#include "backend/vulkan/vk_pipeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"

#define CACHE_LIMIT_BYTES (64u << 20)
#define SOFTWARE          15 /* RL_SOFTWARE of common.glsl */
#define LOCAL             14 /* RL_LOCAL, constant 0 once more */

/* What stands before the driver's data in the cache file. */
typedef struct cache_header {
    char magic[8];
    uint32_t vendor, device, bytes, checksum;
    uint8_t driver_uuid[16];
} cache_header;

static const char cache_magic[8] = { 'R', 'L', 'P', 'I', 'P', 'E', '0', '1' };

struct rl_vk_pipelines {
    rl_vk_device *device;
    VkPipelineLayout layout;
    VkPipelineCache cache;
    VkShaderModule *modules; /* [rl_vk_n_blobs], made on demand */
    rl_vk_pipeline **all;
    uint32_t n_all, n_room, n_saved;
    char cache_file[1024];
};

static uint32_t checksum(const uint8_t *bytes, size_t n) /* FNV-1a */
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * 16777619u;
    return h;
}

static cache_header header_for(const rl_vk_device *device)
{
    cache_header h = { .vendor = device->info.vendor, .device = device->info.device };
    memcpy(h.magic, cache_magic, sizeof h.magic);
    memcpy(h.driver_uuid, device->info.driver_uuid, sizeof h.driver_uuid);
    return h;
}

/* The driver's data of an earlier run, or NULL. The caller frees. */
static uint8_t *cache_load(const rl_vk_device *device, const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    cache_header have, want = header_for(device);
    uint8_t *data = NULL;
    *bytes = 0;
    if (!file) return NULL;
    if (fread(&have, sizeof have, 1, file) == 1 && have.bytes <= CACHE_LIMIT_BYTES) {
        want.bytes = have.bytes;
        want.checksum = have.checksum;
        if (!memcmp(&have, &want, sizeof want)) data = malloc(have.bytes ? have.bytes : 1);
        if (data && (fread(data, 1, have.bytes, file) != have.bytes ||
                     checksum(data, have.bytes) != have.checksum)) {
            free(data);
            data = NULL;
        }
        if (data) *bytes = have.bytes;
    }
    fclose(file);
    return data;
}

static void make_folders(const char *path)
{
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *c = folder + 1; *c; c++) {
        if (*c != '/') continue;
        *c = 0;
        mkdir(folder, 0700);
        *c = '/';
    }
}

/* Written beside and renamed, so that a reader never sees half a file. */
static void cache_save(rl_vk_pipelines *p)
{
    rl_vk_device *device = p->device;
    size_t bytes = 0;
    char temporary[1100];
    if (!p->cache_file[0] || p->n_saved == p->n_all || atomic_load(&device->lost)) return;
    if (device->api.GetPipelineCacheData(device->handle, p->cache, &bytes, NULL) != VK_SUCCESS ||
        !bytes || bytes > CACHE_LIMIT_BYTES)
        return;
    uint8_t *data = malloc(bytes);
    if (!data) return;
    if (device->api.GetPipelineCacheData(device->handle, p->cache, &bytes, data) == VK_SUCCESS) {
        cache_header h = header_for(device);
        h.bytes = (uint32_t)bytes;
        h.checksum = checksum(data, bytes);
        make_folders(p->cache_file);
        snprintf(temporary, sizeof temporary, "%s.%ld", p->cache_file, (long)getpid());
        FILE *file = fopen(temporary, "wb");
        if (file) {
            bool ok = fwrite(&h, sizeof h, 1, file) == 1 && fwrite(data, 1, bytes, file) == bytes;
            ok = !fclose(file) && ok;
            if (!ok || rename(temporary, p->cache_file)) unlink(temporary);
        }
    }
    free(data);
}

void rl_vk_pipelines_default_file(const rl_vk_device *device, char *out, size_t bytes)
{
    const char *base = getenv("XDG_CACHE_HOME"), *between = "";
    if (!base || base[0] != '/') {
        base = getenv("HOME");
        between = "/.cache";
    }
    if (!base || base[0] != '/') {
        out[0] = 0;
        return;
    }
    snprintf(out, bytes, "%s%s/redlite/pipelines-%04x-%04x-%08x.bin", base, between,
             device->info.vendor, device->info.device,
             checksum(device->info.driver_uuid, sizeof device->info.driver_uuid));
}

rl_status rl_vk_pipelines_create(rl_vk_pipelines **out, rl_vk_device *device,
                                 const char *cache_file, rl_error *err)
{
    *out = NULL;
    rl_vk_pipelines *p = calloc(1, sizeof *p);
    VkShaderModule *modules = calloc(rl_vk_n_blobs ? rl_vk_n_blobs : 1, sizeof *modules);
    if (!p || !modules) {
        free(p);
        free(modules);
        return rl_fail(err, RL_NOMEM, "no memory for the kernels' table");
    }
    p->device = device;
    p->modules = modules;
    snprintf(p->cache_file, sizeof p->cache_file, "%s", cache_file ? cache_file : "");

    VkPushConstantRange range = { .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = 128 };
    VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    VkResult r = device->api.CreatePipelineLayout(device->handle, &layout, NULL, &p->layout);
    if (r != VK_SUCCESS) {
        p->layout = VK_NULL_HANDLE;
        rl_vk_pipelines_destroy(p);
        return rl_vk_check(device, r, "vkCreatePipelineLayout", err);
    }
    size_t bytes = 0;
    uint8_t *data = p->cache_file[0] ? cache_load(device, p->cache_file, &bytes) : NULL;
    VkPipelineCacheCreateInfo cache = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = bytes,
        .pInitialData = data,
    };
    r = device->api.CreatePipelineCache(device->handle, &cache, NULL, &p->cache);
    free(data);
    if (r != VK_SUCCESS) {
        p->cache = VK_NULL_HANDLE;
        rl_vk_pipelines_destroy(p);
        return rl_vk_check(device, r, "vkCreatePipelineCache", err);
    }
    *out = p;
    return RL_OK;
}

void rl_vk_pipelines_destroy(rl_vk_pipelines *p)
{
    if (!p) return;
    const rl_vk_api *api = &p->device->api;
    VkDevice handle = p->device->handle;
    if (p->cache) cache_save(p);
    for (uint32_t i = 0; i < p->n_all; i++) {
        api->DestroyPipeline(handle, p->all[i]->handle, NULL);
        free(p->all[i]);
    }
    for (uint32_t i = 0; i < rl_vk_n_blobs; i++)
        if (p->modules[i]) api->DestroyShaderModule(handle, p->modules[i], NULL);
    if (p->cache) api->DestroyPipelineCache(handle, p->cache, NULL);
    if (p->layout) api->DestroyPipelineLayout(handle, p->layout, NULL);
    free(p->all);
    free(p->modules);
    free(p);
}

uint32_t rl_vk_pipelines_count(const rl_vk_pipelines *p)
{
    return p->n_all;
}

static rl_status module_get(rl_vk_pipelines *p, const rl_vk_blob *blob, VkShaderModule *out,
                            rl_error *err)
{
    rl_vk_device *device = p->device;
    VkShaderModule *module = &p->modules[blob - rl_vk_blobs];
    if (!*module) {
        VkShaderModuleCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
            .codeSize = blob->bytes,
            .pCode = blob->words,
        };
        VkResult r = device->api.CreateShaderModule(device->handle, &info, NULL, module);
        if (r != VK_SUCCESS) {
            *module = VK_NULL_HANDLE;
            return rl_vk_check(device, r, "vkCreateShaderModule", err);
        }
        rl_vk_name(device, VK_OBJECT_TYPE_SHADER_MODULE, (uint64_t)*module, "%s", blob->name);
    }
    *out = *module;
    return RL_OK;
}

static rl_status pipeline_make(rl_vk_pipelines *p, const rl_vk_blob *blob, rl_vk_pipeline *made,
                               rl_error *err)
{
    rl_vk_device *device = p->device;
    VkShaderModule module = VK_NULL_HANDLE;
    rl_status status = module_get(p, blob, &module, err);
    if (status) return status;
    VkSpecializationMapEntry entries[RL_VK_MAX_CONSTANTS + 2];
    uint32_t values[RL_VK_MAX_CONSTANTS + 2], n = made->n_constants;
    for (uint32_t i = 0; i < n; i++)
        entries[i] = (VkSpecializationMapEntry){ .constantID = i, .offset = 4 * i, .size = 4 };
    memcpy(values, made->constants, 4 * n);
    entries[n] = (VkSpecializationMapEntry){ .constantID = SOFTWARE, .offset = 4 * n, .size = 4 };
    values[n++] = device->info.kind == RL_VK_SOFTWARE;
    entries[n] = (VkSpecializationMapEntry){ .constantID = LOCAL, .offset = 4 * n, .size = 4 };
    values[n++] = made->constants[0];
    VkSpecializationInfo constants = {
        .mapEntryCount = n,
        .pMapEntries = entries,
        .dataSize = 4 * n,
        .pData = values,
    };
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = { .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                   .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                   .module = module,
                   .pName = "main",
                   .pSpecializationInfo = &constants },
        .layout = p->layout,
    };
    VkResult r =
        device->api.CreateComputePipelines(device->handle, p->cache, 1, &info, NULL, &made->handle);
    if (r != VK_SUCCESS) {
        made->handle = VK_NULL_HANDLE;
        return rl_vk_check(device, r, "vkCreateComputePipelines", err);
    }
    rl_vk_name(device, VK_OBJECT_TYPE_PIPELINE, (uint64_t)made->handle, "%s", blob->name);
    return RL_OK;
}

rl_status rl_vk_pipelines_get(rl_vk_pipelines *p, rl_vk_op op, uint32_t type,
                              const uint32_t *constants, uint32_t n_constants,
                              const rl_vk_pipeline **out, rl_error *err)
{
    RL_ASSERT(op < RL_VK_N_OPS && n_constants <= RL_VK_MAX_CONSTANTS);
    *out = NULL;
    for (uint32_t i = 0; i < p->n_all; i++) {
        const rl_vk_pipeline *have = p->all[i];
        if (have->op == op && have->type == type && have->n_constants == n_constants &&
            !memcmp(have->constants, constants, 4 * n_constants)) {
            *out = have;
            return RL_OK;
        }
    }
    const rl_vk_blob *blob = rl_vk_blob_find(op, type);
    if (!blob)
        return rl_fail(err, RL_UNSUPPORTED, "the Vulkan backend has no %s kernel for type %u",
                       rl_vk_op_infos[op].name, type);
    if (p->n_all == p->n_room) {
        uint32_t room = p->n_room ? 2 * p->n_room : 64;
        rl_vk_pipeline **all = realloc(p->all, room * sizeof *all);
        if (!all) return rl_fail(err, RL_NOMEM, "no memory for the kernels' table");
        p->all = all;
        p->n_room = room;
    }
    rl_vk_pipeline *made = calloc(1, sizeof *made);
    if (!made) return rl_fail(err, RL_NOMEM, "no memory for a kernel");
    made->op = op;
    made->type = type;
    made->layout = p->layout;
    made->n_constants = n_constants;
    memcpy(made->constants, constants, 4 * n_constants);
    rl_status status = pipeline_make(p, blob, made, err);
    if (status) {
        free(made);
        return status;
    }
    p->all[p->n_all++] = made;
    *out = made;
    return RL_OK;
}
