/* Leaves a fence, its device and its instance. With -DLINKED it is linked to Vulkan's loader, otherwise it opens it. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct { uint32_t type; const void *next; uint32_t flags; } Info;
typedef struct { uint32_t type; const void *next; uint32_t flags, family, count; const float *priorities; } Queue;
typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    const void *application;
    uint32_t layers;
    const void *layer_names;
    uint32_t extensions;
    const void *extension_names;
} Instance;
typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags, queues;
    const Queue *queue;
    uint32_t layers;
    const void *layer_names;
    uint32_t extensions;
    const void *extension_names, *features;
} Device;

#ifdef LINKED
int vkCreateInstance(const void *, const void *, void **);
int vkEnumeratePhysicalDevices(void *, uint32_t *, void **);
int vkCreateDevice(void *, const void *, const void *, void **);
int vkCreateFence(void *, const void *, const void *, uint64_t *);
void vkDestroyFence(void *, uint64_t, const void *);
#define FIND(instance, name) name
#else
static void *(*find)(void *, const char *);
#define FIND(instance, name) ((__typeof__(&call_##name))find(instance, #name))
int call_vkCreateInstance(const void *, const void *, void **);
int call_vkEnumeratePhysicalDevices(void *, uint32_t *, void **);
int call_vkCreateDevice(void *, const void *, const void *, void **);
int call_vkCreateFence(void *, const void *, const void *, uint64_t *);
void call_vkDestroyFence(void *, uint64_t, const void *);
#endif

int main(void) {
#ifndef LINKED
    find = (void *(*)(void *, const char *))dlsym(dlopen("libvulkan.so.1", RTLD_NOW), "vkGetInstanceProcAddr");
#endif
    Instance of_instance;
    memset(&of_instance, 0, sizeof of_instance);
    of_instance.type = 1;
    void *instance = 0, *physical[8], *device = 0;
    if (FIND(0, vkCreateInstance)(&of_instance, 0, &instance) != 0) return 9;
    uint32_t count = 8;
    if (FIND(instance, vkEnumeratePhysicalDevices)(instance, &count, physical) < 0 || count == 0) return 9;
    float priority = 1;
    Queue queue = {2, 0, 0, 0, 1, &priority};
    Device of_device;
    memset(&of_device, 0, sizeof of_device);
    of_device.type = 3;
    of_device.queues = 1;
    of_device.queue = &queue;
    if (FIND(instance, vkCreateDevice)(physical[0], &of_device, 0, &device) != 0) return 9;
    Info info = {8, 0, 0};
    uint64_t fence = 0, other = 0;
    FIND(instance, vkCreateFence)(device, &info, 0, &fence); /* left here */
    FIND(instance, vkCreateFence)(device, &info, 0, &other);
    FIND(instance, vkDestroyFence)(device, other, 0);
    return 0;
}
