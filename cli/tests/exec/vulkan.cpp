// Leaves a fence, an event, its device and its instance. With -DVOLK it loads Vulkan's functions with volk, otherwise
// it is linked to Vulkan's loader.
#ifdef VOLK
#define VOLK_IMPLEMENTATION
#include <volk.h>
#else
#include <vulkan/vulkan.h>
#endif

int main() {
#ifdef VOLK
    if (volkInitialize() != VK_SUCCESS) return 9;
#endif
    VkInstanceCreateInfo of_instance = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    VkInstance instance;
    if (vkCreateInstance(&of_instance, nullptr, &instance) != VK_SUCCESS) return 9;
#ifdef VOLK
    volkLoadInstance(instance);
#endif
    VkPhysicalDevice physical;
    uint32_t count = 1;
    if (vkEnumeratePhysicalDevices(instance, &count, &physical) < 0 || count == 0) return 9;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, 0, 1, &priority};
    VkDeviceCreateInfo of_device = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    of_device.queueCreateInfoCount = 1;
    of_device.pQueueCreateInfos = &queue;
    VkDevice device;
    if (vkCreateDevice(physical, &of_device, nullptr, &device) != VK_SUCCESS) return 9;
    // This is the loader's function, which finds the device's own.
    VkFenceCreateInfo of_fence = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence fence, other;
    vkCreateFence(device, &of_fence, nullptr, &fence); /* left here */
    vkCreateFence(device, &of_fence, nullptr, &other);
#ifdef VOLK
    volkLoadDevice(device);
#endif
    // With volk, this is the device's own function, although the loader's function created the
    // object.
    vkDestroyFence(device, other, nullptr);
    VkEventCreateInfo of_event = {VK_STRUCTURE_TYPE_EVENT_CREATE_INFO};
    VkEvent event, destroyed;
    vkCreateEvent(device, &of_event, nullptr, &event);
    vkCreateEvent(device, &of_event, nullptr, &destroyed);
    vkDestroyEvent(device, destroyed, nullptr);
    return 0;
}
